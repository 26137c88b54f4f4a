// Answers from a recording, in place of a server: what a notebook keeps of a console.

const { hello, answers } = JSON.parse(document.getElementById("recording").text);
const recorded = new Map(answers.map(([name, parameters, answer]) => [key(name, parameters), answer]));
const MISSING = "this was not recorded: `kafka-on-spark console` shows it";

/** What the page calls its newest moment, and the button that leads there. */
export const PRESENT = { words: "as recorded", unfollowed: "as recorded", button: "Newest" };

function key(name, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return JSON.stringify([name, given.map(([each, value]) => [each, String(value)]).sort()]);
}

/** A recording needs no token. */
export function takeToken() {
  return false;
}

let moment = null; // the address of a recording may be that of a notebook, which has moments of its own

/** Return the moment that was put; a recording begins with its newest. */
export function momentInAddress() {
  return moment;
}

/** Keep a moment. */
export function putMomentInAddress(at) {
  moment = at;
}

/** Return a view as it was recorded. */
export async function get(name, parameters = {}) {
  const answer = recorded.get(key(name, parameters));
  if (answer === undefined) throw new Error(MISSING);
  if (answer.error !== undefined) throw new Error(answer.error);
  return structuredClone(answer.view);
}

/** A recording changes nothing. */
export async function post() {
  throw new Error(MISSING);
}

/** A recording has no answer that comes bit by bit. */
export async function* stream() {
  throw new Error(MISSING);
}

/** Tell of the moment that was recorded: there is no other event. */
export async function follow(told) {
  told("hello", hello);
}
