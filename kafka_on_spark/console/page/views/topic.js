// One topic: what it is, and its partitions with leaders, ISRs, and offsets.

import { el, fill, name, number, table } from "../dom.js";
import { follows, part } from "../panel.js";
import { grid, store } from "../store.js";
import { fitIds, ID, IDS, longTable } from "../virtual.js";

const COLUMNS = [["partition", "number", "92px"], ["leader", null, ID], ["epoch", null, "50px"], ["replicas", null, IDS], ["in sync", null, IDS],
  ["problem", null, "minmax(200px, 1fr)"], ["log start", "n", "86px"], ["committed", "n", "86px"], ["log end", "n", "86px"],
  ["records", null, "70px"]];

export function topicView(page, asked) {
  const topic = asked.name ?? "";

  const facts = part("topic", () => ({ name: topic }), (data) => [
    el("dl", { class: "facts" },
      fact("Id", el("code", {}, data.id)), fact("Partitions", number(data.partitions)), fact("Replicas", data.replicas),
      fact("In sync for acks=all", data.minIsr), fact("Offsets kept", number(data.records)), fact("Not committed yet", number(data.uncommitted)),
      fact("Read by", data.groups.length ? data.groups.map((each, at) => [at ? ", " : null,
        el("a", { href: `#/groups?name=${encodeURIComponent(each)}`, "data-key": each }, name(each))]) : "no group")),
    data.configs.length ? table("Settings of its own", [["setting"], ["value"]], data.configs.map(([key, value]) => [el("code", {}, key), name(value)])) : null,
  ]);
  const list = longTable({ label: `Partitions of ${topic}`, columns: COLUMNS, cells,
    kind: (item) => (item.problems.length ? "trouble" : "") });

  function fact(title, value) {
    return [el("dt", { class: "quiet" }, title), el("dd", {}, value)];
  }

  function idsOf(item) {
    return item.cells.map(([broker]) => broker).join(" ");
  }

  function cells(item) {
    const link = `topic=${encodeURIComponent(topic)}&partition=${item.partition}`;
    return [
      el("a", { href: `#/timeline?${link}`, "data-key": `${item.name} history`, "aria-label": `${item.name}: its history` }, item.partition),
      item.leader === null ? el("strong", {}, "none") : item.leader,
      item.leaderEpoch,
      idsOf(item),
      item.isr.join(" ") || "none",
      item.problems.length ? el("strong", {}, item.problems.join(", ")) : null,
      number(item.logStart), number(item.highWatermark), number(item.logEnd),
      el("a", { href: `#/messages?${link}`, "data-key": `${item.name} records`, "aria-label": `${item.name}: its records` }, "show"),
    ];
  }

  function whole() {
    const view = grid();
    if (!view) return;
    const rows = view.rows.filter((each) => each.topic === topic);
    fitIds(list, rows.map(idsOf));
    list.set(rows);
  }

  fill(page, el("h1", {}, "Topic ", name(topic)), facts.node, el("h2", {}, "Partitions"), list.node);
  whole();
  return follows(`Topic ${topic}`, [facts], ["configs", "groups"], (kind, detail) => {
    if (kind === "grid" || kind === "rows") whole();
    const isOfIt = kind === "grid" || (kind === "rows" && detail.some((each) => grid().byName.get(each).topic === topic));
    if (isOfIt && store.at === null) facts.soon();
  });
}
