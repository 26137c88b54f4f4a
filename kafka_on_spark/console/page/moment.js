// The moment that the whole page shows: now, or as of a decision of the past.

import { get, momentInAddress, putMomentInAddress } from "./api.js";
import { el, fill, say, time } from "./dom.js";
import { go, isFollowed, listen, store } from "./store.js";

const PAUSE_MS = 120;
const OLDEST = "the oldest moment that the bar has; “as of” beside a decision goes further back";

/** Draw the bar by which people go through the past. */
export function momentBar(node) {
  let moments = [];
  let olderCount = 0; // moments before those, which only their decisions lead to
  let wanted = null; // the moment that was chosen last
  let isGoing = false;
  let isKnown = false;
  let loading = null;
  let turn = 0; // of choices: the last one holds
  const isGone = (error) => error.status === 400; // there is no such moment; any other failure may pass
  let failure = null; // why what was chosen last is not shown
  let addressed = null; // the moment in the address, as it was last heeded
  const slider = el("input", { type: "range", min: "0", max: "1", value: "1", step: "1", "aria-label": "As of which decision",
    oninput: input, onfocus: refresh, onpointerenter: refresh });
  const told = el("output", { "aria-live": "off" });
  const cause = el("span", { class: "quiet name" });
  const back = el("button", { type: "button", "aria-label": "the decision before", onclick: () => step(-1) }, "◂");
  const on = el("button", { type: "button", "aria-label": "the decision after", onclick: () => step(1) }, "▸");
  const now = el("button", { type: "button", onclick: goLive }, "Live");
  fill(node, el("div", { class: "moments", role: "group", "aria-label": "As of" }, el("span", {}, "As of"), back, slider, on, now, told, cause));
  tell();

  /** Learn the moments; who asks while that is under way waits for the same. */
  function refresh() {
    if (store.at === null || !isKnown) loading ??= learn().finally(() => { loading = null; });
    return loading;
  }

  async function learn() {
    try {
      ({ moments, olderCount } = await get("moments"));
      isKnown = true;
    } catch (error) {
      failure = error;
      tell();
      say(error.message);
      return;
    }
    slider.max = String(moments.length);
    if (wanted === null) slider.value = slider.max;
    tell();
  }

  /** Follow the slider; before the moments are known, its place counts from the end. */
  async function input() {
    const mine = (turn += 1);
    const behind = Number(slider.max) - Number(slider.value);
    if (!isKnown) {
      await refresh();
      if (mine !== turn) return; // it was moved again
      slider.value = String(Math.max(moments.length - behind, 0));
    }
    show(Number(slider.value));
  }

  /** Go on by a decision; a second step goes on from the first. */
  async function step(by) {
    const mine = turn;
    await refresh();
    if (mine !== turn || !isKnown) return;
    const [next, before] = [moments.findIndex(([end]) => end > wanted), moments.findLastIndex(([end]) => end < wanted)];
    if (wanted === null) show(Math.max(moments.length + Math.min(by, 0), 0));
    else if (by > 0) show(next >= 0 ? next : moments.length);
    else if (before >= 0) show(before);
  }

  function show(place) {
    slider.value = String(place);
    goTo(place >= moments.length ? null : moments[place][0]);
  }

  /** Show a moment, and have the address lead to it, unless another is chosen meanwhile: then that. */
  async function goTo(at) {
    wanted = at;
    failure = null;
    if (isGoing) return;
    isGoing = true;
    let error = null;
    while (wanted !== store.at && error === null) {
      const target = wanted;
      await go(target).catch((failed) => {
        if (wanted === target) error = failed;
      });
      if (error === null) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    isGoing = false;
    settle(error);
  }

  /** The address leads to what is shown; after a failure that may pass, still to what was wanted. */
  function settle(error) {
    wanted = addressed = store.at;
    if (error === null || isGone(error)) putMomentInAddress(addressed);
    if (wanted !== null) slider.value = String(placeOf(wanted));
    failure = error;
    tell();
    say(error !== null ? error.message : store.at === null ? "The page shows the cluster as it is."
      : `The page shows the cluster as of ${time(store.past.timeMs)}.`);
  }

  /** Return the place of the last moment up to a metadata offset. */
  function placeOf(end) {
    return Math.max(moments.findLastIndex(([each]) => each <= end), 0);
  }

  function tell() {
    document.body.classList.toggle("is-past", store.at !== null);
    const place = moments.findIndex(([end]) => end === store.at);
    if (wanted === null) slider.value = slider.max; // else it is where people have put it
    const text = store.at === null ? (isFollowed() ? "now, live" : "as it was when it was last followed") : `${time(store.past.timeMs)} UTC`;
    slider.setAttribute("aria-valuetext", text);
    fill(told, failure?.message ?? text);
    fill(cause, store.at === null || place < 0 ? null : place === 0 && olderCount > 0 ? OLDEST : moments[place][2]);
    now.disabled = store.at === null && failure === null;
  }

  listen((kind) => {
    if (kind !== "moment" && kind !== "trouble") return;
    const isAgain = kind === "trouble" && isFollowed() && failure !== null && !isGone(failure);
    if (isAgain) failure = null;
    tell();
    if (isAgain) heed();
  });
  addEventListener("popstate", heed);
  heed();

  /** Show the moment that the address has come to lead to, by its beginning, or by back and forward. */
  function heed() {
    const at = momentInAddress();
    if (at === addressed) return;
    addressed = at;
    if (at === null) goLive();
    else goBehind(at);
  }

  function goLive() {
    turn += 1;
    goTo(null);
  }

  /** Show the moment at the metadata offset behind a decision, however old it is. */
  async function goBehind(end) {
    const mine = (turn += 1);
    await refresh();
    if (mine !== turn) return;
    slider.value = String(placeOf(end));
    goTo(end);
  }

  /** Show the moment behind the last decision up to a time; before the first that the bar has, that. */
  async function goToTime(ms) {
    const mine = (turn += 1);
    await refresh();
    if (mine !== turn || !isKnown) return;
    const found = moments.findLastIndex(([, at]) => at <= ms);
    show(Math.max(found, 0));
  }

  return { goBehind, goToTime };
}
