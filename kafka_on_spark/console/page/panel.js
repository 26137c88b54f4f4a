// What views share: a part that is loaded, and loaded anew when what it shows has changed.

import { get } from "./api.js";
import { el, fill, keyed } from "./dom.js";
import { isFollowed, store } from "./store.js";

const PAUSE_MS = 300;

/** Return a part of a view: `draw(data)` returns nodes, and after `failed()` it says why there are none. `load()` asks for data at once, and gives up
 * what was asked before. `soon()` is for changes: of many in a moment there is one load, and while
 * one is under way it comes to its end first, however slow it is. */
export function part(name, parametersOf, draw, failed = () => {}) {
  const node = el("div", { class: "part" });
  let timer = null;
  let asked = 0;
  let aborter = null; // of the load that is under way
  let isStale = false;
  let hasFailed = false;

  async function load() {
    stop();
    const turn = asked;
    const parameters = parametersOf();
    if (parameters === null) return;
    aborter = new AbortController();
    try {
      const data = await get(name, { at: store.at, ...parameters }, aborter.signal);
      if (turn !== asked) return;
      hasFailed = false;
      show(draw(data));
    } catch (error) {
      if (turn === asked && error.name !== "AbortError") {
        hasFailed = true;
        failed();
        show(el("p", { class: "trouble", role: "alert" }, error.message));
      }
    } finally {
      if (turn === asked) {
        aborter = null;
        if (isStale) soon();
      }
    }
  }

  function soon() {
    if (aborter !== null) isStale = true;
    else timer ??= setTimeout(load, PAUSE_MS);
  }

  function stop() {
    clearTimeout(timer);
    aborter?.abort();
    [timer, aborter, isStale] = [null, null, false];
    asked += 1;
  }

  function show(drawn) {
    const focused = node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    fill(node, drawn);
    if (focused) keyed(node, focused)?.focus({ preventScroll: true });
  }

  return {
    node,
    load,
    soon,
    again: () => hasFailed && soon(),
    close: stop,
  };
}

/** Return what a view with parts does with changes: those of `concerns` load them anew. */
export function follows(title, parts, concerns, more = () => {}) {
  for (const each of parts) each.load();
  return {
    title,
    on(kind, detail) {
      if (kind === "moment") for (const each of parts) each.load();
      if (kind === "trouble" && isFollowed()) for (const each of parts) each.again();
      if (kind === "concerns" && store.at === null && detail.some((each) => concerns.includes(each))) for (const each of parts) each.soon();
      more(kind, detail);
    },
    close() {
      for (const each of parts) each.close();
    },
  };
}
