// One topic: what it is, and its partitions with leaders, ISRs, offsets, sizes and rates.

import { get } from "../api.js";
import { changeButton, changeForm, mayChange } from "../changes.js";
import { bytes, el, fill, name, number, table } from "../dom.js";
import { follows, part } from "../panel.js";
import { grid, store } from "../store.js";
import { fitIds, ID, IDS, longTable, widenIds } from "../virtual.js";

const MEASURE_MS = 400;
const COLUMNS = [["partition", "number", "92px"], ["leader", null, ID], ["epoch", null, "50px"], ["replicas", null, IDS], ["in sync", null, IDS],
  ["problem", null, "minmax(200px, 1fr)"], ["log start", "n", "86px"], ["committed", "n", "86px"], ["log end", "n", "86px"],
  ["size", "n", "70px"], ["a second", "n", "74px"], ["records", null, "70px"]];

export function topicView(page, asked) {
  const topic = asked.name ?? "";
  const sizes = new Map();
  let rates = new Map();
  let timer = null;
  let isClosed = false;

  const change = el("div", { class: "part" });
  const facts = part("topic", () => ({ name: topic }), (data) => {
    offer();
    return told(data);
  }, () => fill(change));

  const told = (data) => [
    el("dl", { class: "facts" },
      fact("Id", el("code", {}, data.id)), fact("Partitions", number(data.partitions)), fact("Replicas", data.replicas),
      fact("In sync for acks=all", data.minIsr), fact("Offsets kept", number(data.records)), fact("Not committed yet", number(data.uncommitted)),
      fact("Read by", data.groups.length ? data.groups.map((each, at) => [at ? ", " : null,
        el("a", { href: `#/groups?name=${encodeURIComponent(each)}`, "data-key": each }, name(each))]) : "no group")),
    data.configs.length ? table("Settings of its own", [["setting"], ["value"]], data.configs.map(([key, value]) => [el("code", {}, key), name(value)])) : null,
  ];
  const list = longTable({ label: `Partitions of ${topic}`, columns: COLUMNS, cells,
    kind: (item) => (item.problems.length ? "trouble" : "") });
  list.node.addEventListener("scroll", measureSoon);

  /** Offer changes, unless they are offered: what was typed stays. */
  function offer() {
    if (mayChange() !== (change.firstChild !== null)) fill(change, mayChange() ? changes() : null);
  }

  function changes() {
    const input = (label, properties = {}) => el("input", { "aria-label": label, placeholder: label, required: true, ...properties });
    const [setting, value] = [input("setting"), input("value (nothing: unset)", { required: false })];
    const [number, replicas] = [input("partition", { type: "number", min: "0" }), input("brokers, such as 2 1 3", { pattern: "[0-9]+([ ,]+[0-9]+)*" })];
    return el("details", {}, el("summary", {}, "Change"),
      changeForm("Set it", "configure-topic", [setting, value], () => ({ topic, name: setting.value, value: value.value || null })),
      changeForm("Move it there", "reassign", [number, replicas],
        () => ({ topic, partition: Number(number.value), replicas: replicas.value.split(/[ ,]+/).map(Number) })),
      changeButton("Delete the topic", "delete-topic", () => ({ topic }), { typed: topic }));
  }

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
      store.at === null && sizes.has(item.partition) ? bytes(sizes.get(item.partition)) : "",
      store.at === null && rates.has(item.partition) ? number(rates.get(item.partition)) : "",
      el("a", { href: `#/messages?${link}`, "data-key": `${item.name} records`, "aria-label": `${item.name}: its records` }, "show"),
    ];
  }

  function whole() {
    const view = grid();
    if (!view) return;
    const rows = view.rows.filter((each) => each.topic === topic);
    fitIds(list, rows.map(idsOf));
    list.set(rows);
    measureSoon();
  }

  function renew(changed) {
    if (!changed.length) return;
    for (const row of changed) sizes.delete(row.partition);
    widenIds(list, changed.map(idsOf));
    list.refresh((item) => changed.includes(item));
    facts.soon();
    measureSoon();
  }

  function takeRates() {
    const before = rates;
    rates = new Map(store.rates.get(topic) ?? []);
    list.refresh((item) => before.get(item.partition) !== rates.get(item.partition));
  }

  function measureSoon() {
    if (store.at === null) timer ??= setTimeout(measure, MEASURE_MS);
  }

  /** Have the logs of the partitions in view measured: each is a table that is read for it. */
  async function measure() {
    timer = null;
    const inView = [...list.nodes.keys()].map((at) => list.items[at].partition).filter((each) => !sizes.has(each));
    if (!inView.length || isClosed) return;
    try {
      for (const [partition, size] of await get("sizes", { topic, partitions: inView.join(",") })) sizes.set(partition, size);
    } catch {
      return; // A table that can't be read has no size; the column stays empty.
    }
    list.refresh((item) => inView.includes(item.partition));
  }

  fill(page, el("h1", {}, "Topic ", name(topic)), facts.node, change, el("h2", {}, "Partitions"), list.node);
  takeRates();
  whole();
  const view = follows(`Topic ${topic}`, [facts], ["configs", "groups"], (kind, detail) => {
    if (kind === "grid" || kind === "moment") whole();
    if (kind === "grid" && store.at === null) facts.soon(); // a change of many rows comes as a grid
    if (kind === "rates") takeRates();
    if (kind === "rows") renew(detail.map((each) => grid().byName.get(each)).filter((row) => row.topic === topic));
  });
  return { ...view, close() {
    isClosed = true;
    clearTimeout(timer);
    view.close();
    list.close();
  } };
}
