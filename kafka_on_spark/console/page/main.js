// The frame of the page: its header, its views by their addresses, and what a change does to them.

import { takeToken } from "./api.js";
import { el, fill, number, shown, time } from "./dom.js";
import { begin, grid, listen, store } from "./store.js";
import { momentBar } from "./moment.js";
import { whatIfView } from "./views/foresight.js";
import { gridView } from "./views/grid.js";
import { messagesView } from "./views/messages.js";
import { groupsView } from "./views/groups.js";
import { timelineView } from "./views/timeline.js";
import { topicView } from "./views/topic.js";

const VIEWS = [
  ["grid", "Partitions", gridView],
  ["topic", null, topicView],
  ["timeline", "Timeline", timelineView],
  ["groups", "Groups", groupsView],
  ["messages", "Messages", messagesView],
  ["what-if", "What if", whatIfView],
];

const main = document.getElementById("main");
const trouble = el("p", { class: "trouble", role: "alert" });
const moment = el("p", { class: "quiet" });
const cluster = el("code");
const moments = momentBar(document.getElementById("time"));
let current = null;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [key, , view] = VIEWS.find(([each]) => each === path) ?? VIEWS[0];
  current?.close?.();
  fill(document.getElementById("views"), el("ul", {}, VIEWS.filter(([, title]) => title).map(([each, title]) =>
    el("li", {}, el("a", { href: `#/${each}`, "aria-current": each === key ? "page" : null }, title)))));
  current = view(fill(main), Object.fromEntries(new URLSearchParams(query ?? "")), moments);
  document.title = `${shown(current.title)} · kafka-on-spark`;
}

function figures() {
  const view = grid();
  if (!view) return;
  fill(cluster, view.cluster);
  fill(moment, `${store.at === null ? "" : "As of "}${time(view.timeMs)} UTC, metadata offset ${number(view.offset)}`);
}

function troubles() {
  const sentence = store.away ?? store.trouble;
  document.body.classList.toggle("is-away", sentence !== null);
  fill(trouble, sentence === null ? null : `Not followed: ${sentence}`);
}

listen((kind, detail) => {
  if (kind === "trouble") troubles();
  if (kind === "live" || kind === "moment") figures();
  current?.on?.(kind, detail);
});
addEventListener("hashchange", () => {
  if (takeToken()) {
    location.reload(); // the address of another console: nothing of this one is true of it
    return;
  }
  route();
  main.focus({ preventScroll: true });
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address stays that of the view
  main.focus();
});
takeToken();
fill(document.getElementById("top"),
  el("div", { class: "brand" }, el("a", { href: "#/grid" }, "kafka-on-spark"), cluster), moment, trouble);
route();
begin();
