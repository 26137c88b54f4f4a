// Asks the server. The token comes with the address once, and goes with every request as a header.

const KEY = "kafka-on-spark token";
const PAUSE_MS_MAX = 5000;
const GREETING_MS_MAX = 45_000; // until the server has said how long it may be silent
const RETURN_MS_MAX = 3000; // until people who see the page again are told that it may be old

const AWAY = "the console has ended, or is not reached";

/** Take the token out of the address, where it would be seen and copied; return whether there was one. */
export function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (!given) return false;
  localStorage.setItem(KEY, given[1]);
  history.replaceState(null, "", `${location.pathname}#/grid`);
  return true;
}

/** Return the moment in the address, a metadata offset; null: there is none, or no number. */
export function momentInAddress() {
  const given = new URLSearchParams(location.search).get("at") ?? "";
  return /^\d{1,15}$/.test(given) ? Number(given) : null;
}

/** Have the address lead to a moment, also after a reload; null: to the newest. */
export function putMomentInAddress(at) {
  try {
    history.replaceState(null, "", `${location.pathname}${at === null ? "" : `?at=${at}`}${location.hash}`);
  } catch {
    // Safari takes a hundred of them in half a minute; the next one may go.
  }
}

function headers() {
  return { authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` };
}

function path(name, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `api/${name}${query ? `?${query}` : ""}`;
}

/** Return what the server gives. What a browser says of a connection that fails is for programmers. */
async function given(promise) {
  try {
    return await promise;
  } catch (error) {
    throw error instanceof TypeError ? new Error(AWAY) : error;
  }
}

async function answer(asked) {
  const response = await given(asked);
  if (response.ok) return response;
  const text = await response.text();
  let sentence = text;
  try {
    sentence = JSON.parse(text).error ?? text;
  } catch {
    // The server's own refusals are plain text.
  }
  throw Object.assign(new Error(sentence.trim()), { status: response.status });
}

/** Return a view. */
export async function get(name, parameters = {}, signal = undefined) {
  const response = await answer(fetch(path(name, parameters), { headers: headers(), signal }));
  return given(response.json());
}

async function* eventsOf(response, heard) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await given(reader.read());
    if (done) break;
    heard();
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    yield* parts;
  }
}

/**
 * Follow the server's events for ever: `told(name, data)`; `lost(sentence)` while it is away.
 * It is never silent for longer than its greeting says: else it hangs, or a tunnel to it is gone,
 * which no end of the stream would tell.
 *
 * A page that nobody can see is not followed: a stream keeps one of the six connections that browsers
 * give to one server, and without any left no page of it is answered. Where it is seen again, what
 * it shows is not the newest until the server has answered.
 */
export async function follow(told, lost) {
  let silenceMs = GREETING_MS_MAX;
  let wasLeft = false;
  for (let pause = 250; ; pause = Math.min(pause * 2, PAUSE_MS_MAX)) {
    while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    const aborter = new AbortController();
    let isLeft = false;
    const leave = () => {
      isLeft ||= document.hidden;
      if (isLeft) aborter.abort();
    };
    document.addEventListener("visibilitychange", leave);
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => aborter.abort(), silenceMs);
    };
    const returned = wasLeft ? setTimeout(() => lost("the console has not answered yet"), RETURN_MS_MAX) : 0;
    try {
      heard();
      const response = await answer(fetch(path("events", {}), { headers: headers(), signal: aborter.signal }));
      for await (const event of eventsOf(response, heard)) {
        const kind = /^event: (.*)$/m.exec(event);
        const data = /^data: (.*)$/m.exec(event);
        if (kind && data) {
          pause = 250;
          clearTimeout(returned);
          const said = JSON.parse(data[1]);
          if (kind[1] === "hello") {
            silenceMs = said.silenceMs;
            heard();
          }
          told(kind[1], said);
        }
      }
      lost(AWAY);
    } catch (error) {
      if (!isLeft) lost(aborter.signal.aborted ? "the console says nothing any more" : error.message);
    } finally {
      clearTimeout(timer);
      clearTimeout(returned);
      document.removeEventListener("visibilitychange", leave);
      aborter.abort(); // what was not read to its end would keep its connection
    }
    wasLeft = isLeft;
    if (!isLeft) await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
