// JSON for people: the text that was written, in lines. Numbers, strings and names stay as they
// are: a number of JavaScript has fewer digits than one of JSON, and an object has no name twice.

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const DEPTH_MAX = 60; // what is nested deeper is set in no further

/** Return JSON in lines, or null if the text is none. */
export function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let lines = "";
  let depth = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(Math.min(depth, DEPTH_MAX))}`;
  for (const [token] of text.matchAll(TOKENS)) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    if (before === "{" || before === "[" ? !isEnd : isEnd || before === ",") lines += line();
    lines += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return lines;
}
