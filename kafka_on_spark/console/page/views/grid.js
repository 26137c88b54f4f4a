// The grid: a row for each partition, a column for each broker.

import { el, fill, name, number } from "../dom.js";
import { grid } from "../store.js";
import { fitIds, ROW, VirtualList } from "../virtual.js";

const OPEN_MAX = 200;
const SIGNS = { l: "L", s: "•", o: "!", m: "→", f: "×" };

/** Return the mark of a replica: a shape, a sign and words. */
export function mark(broker, code) {
  const colon = code.indexOf(":");
  const letter = code[0];
  const moves = code.slice(1, colon);
  const words = `broker ${broker}: ${code.slice(colon + 1)}`;
  const sign = letter === "m" && moves === "-" ? "←" : SIGNS[letter];
  const arrow = letter === "m" || !moves ? "" : moves === "+" ? " in" : " out";
  return el("i", { class: `c ${letter}${arrow}`, role: "img", title: words, "aria-label": words }, sign);
}

export function legend(view) {
  return el("ul", { class: "legend", "aria-label": "Signs" }, view.legend.map(([letter, words]) =>
    el("li", {}, el("i", { class: `c ${letter}`, "aria-hidden": "true" }, SIGNS[letter]), words)));
}

export function tiles(view) {
  return el("dl", { class: "tiles" },
    view.counts.map(([title, count]) => {
      const isBad = count > 0 && title !== "partitions" && title !== "reassigning";
      return el("div", { class: isBad ? "tile bad" : "tile" }, el("dt", {}, title),
        el("dd", {}, number(count), isBad ? el("span", { class: "unseen" }, " (a problem)") : null));
    }));
}

export function gridView(page) {
  const folded = new Map();
  const figures = el("div");
  const find = el("input", { type: "search", placeholder: "topic or topic-partition", "aria-label": "Find partitions", oninput: () => arrange() });
  const show = el("select", { "aria-label": "Which partitions", onchange: () => arrange() },
    el("option", { value: "all" }, "all partitions"),
    el("option", { value: "trouble" }, "with a problem"),
    el("option", { value: "moving" }, "reassigning"));
  const count = el("span", { class: "quiet", role: "status" });
  const signs = el("div");
  const list = new VirtualList({ label: "Partitions", height: ROW, render });
  let places = new Map();

  function arrange() {
    const view = grid();
    if (!view) return;
    const items = [];
    let found = 0;
    for (const topic of view.topics) {
      const rows = asked(topic);
      if (!rows.length) continue;
      found += rows.length;
      const item = summary(topic, rows);
      items.push(item);
      if (item.isOpen) for (const row of rows) items.push(row);
    }
    fill(count, found ? `${number(found)} of ${number(view.rows.length)} partitions` : "There is no such partition.");
    places = new Map(view.brokers.map((broker, at) => [broker.id, at + 2]));
    list.node.style.setProperty("--brokers", view.brokers.length);
    fitIds(list, view.brokers.map((broker) => `${broker.id}${broker.state === "active" ? "" : "!"}`));
    list.set(items, head(view));
  }

  function asked(topic) {
    const text = find.value.trim().toLowerCase();
    return (byTopic.get(topic) ?? []).filter((row) => isAsked(row, text));
  }

  function summary(topic, rows) {
    const bad = rows.filter((row) => row.problems.length).length;
    const isOpen = folded.get(topic) ?? (bad > 0 || rows.length <= OPEN_MAX || find.value.trim() !== "" || byTopic.size === 1);
    return { topic, count: rows.length, bad, isOpen };
  }

  function isAsked(row, text) {
    if (show.value === "trouble" && !row.problems.length) return false;
    if (show.value === "moving" && !row.reassigning) return false;
    return row.name.toLowerCase().includes(text);
  }

  function head(view) {
    return el("div", { class: "row head", role: "row", "aria-rowindex": "1" },
      el("span", { role: "columnheader", class: "number" }, el("span", { class: "unseen" }, "partition")),
      view.brokers.map((broker) => el("span", { role: "columnheader", class: broker.state === "active" ? null : "bad",
        title: `broker ${broker.id}: ${broker.state}`, place: { "grid-column": places.get(broker.id) } },
        el("a", { href: `#/what-if?brokers=${broker.id}`, "data-key": `broker ${broker.id}`, "aria-label": `broker ${broker.id}, ${broker.state}: what if it died` },
          broker.id, broker.state === "active" ? null : "!"))),
      el("span", { role: "columnheader", class: "notes" }, el("span", { class: "unseen" }, "state")));
  }

  function render(item) {
    return item.cells ? partitionRow(item) : topicRow(item);
  }

  function topicRow(item) {
    return el("div", { class: "row topic", role: "row" },
      el("span", { role: "cell", class: "whole" },
        el("button", { class: "fold", "data-key": `fold ${item.topic}`, "aria-expanded": String(item.isOpen), "aria-label": `partitions of ${item.topic}`,
          onclick: () => { folded.set(item.topic, !item.isOpen); arrange(); } }, item.isOpen ? "▾" : "▸"),
        el("a", { href: `#/topic?name=${encodeURIComponent(item.topic)}`, "data-key": `topic ${item.topic}` }, name(item.topic)),
        el("span", { class: "quiet" }, ` ${number(item.count)} ${item.count === 1 ? "partition" : "partitions"}`),
        item.bad ? el("strong", { class: "bad" }, ` ${number(item.bad)} with a problem`) : null));
  }

  function partitionRow(row) {
    const kind = `row${row.problems.length ? " trouble" : ""}`;
    return el("div", { class: kind, role: "row", "data-name": row.name },
      el("span", { role: "rowheader", class: "number" },
        el("a", { href: `#/timeline?topic=${encodeURIComponent(row.topic)}&partition=${row.partition}`,
          "data-key": row.name, "aria-label": `${row.name}: its history` }, row.partition)),
      row.cells.map(([broker, code]) =>
        el("span", { role: "cell", place: { "grid-column": places.get(broker) } }, mark(broker, code))),
      el("span", { role: "cell", class: "notes" },
        row.problems.length ? el("strong", {}, row.problems.join(", ")) : null,
        row.problems.length ? " · " : null,
        row.leader === null ? null : `leader ${row.leader} · `,
        `committed to ${number(row.highWatermark)}`,
        row.reassigning ? " · reassigning" : null));
  }

  let byTopic = new Map();

  function whole() {
    const view = grid();
    if (!view) return;
    byTopic = Map.groupBy(view.rows, (row) => row.topic);
    fill(signs, legend(view));
    rows();
  }

  function rows() {
    fill(figures, tiles(grid()));
    arrange();
  }

  fill(page, el("h1", {}, "Partitions"), figures, el("div", { class: "tools" }, find, show, count), signs, list.node);
  whole();
  return {
    title: "Partitions",
    on(kind) {
      if (kind === "grid") whole();
      if (kind === "rows") rows();
    },
  };
}
