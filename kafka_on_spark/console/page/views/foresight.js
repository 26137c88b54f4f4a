// What if brokers died, and whether replicas are what they should be.

import { stream } from "../api.js";
import { bytes, el, fill, name, number, table } from "../dom.js";
import { follows, onlyNow, part } from "../panel.js";
import { grid, store } from "../store.js";

export function whatIfView(page, asked) {
  const chosen = new Set((asked.brokers ?? "").split(",").filter((each) => /^\d+$/.test(each)).map(Number));
  let told = null; // of which the forecast was asked
  const choice = el("fieldset", { class: "tools" });
  const forecast = part("what-if", () => {
    told = known();
    return told ? { brokers: told } : null;
  }, (data) => [
    el("dl", { class: "tiles" }, data.counts.map(([title, count], at) =>
      el("div", { class: count > 0 && at > 0 ? "tile bad" : "tile" }, el("dt", {}, title), el("dd", {}, number(count))))),
    el("h2", {}, "Leaders"),
    table("Leaders by broker", [["broker", "n"], ["leads now", "n"], ["would lead", "n"]],
      data.leaders.map(([broker, before, after]) => [broker, number(before), chosen.has(broker) ? "—" : number(after)])),
    el("h2", {}, "Partitions that would change"),
    table("Partitions that would change", [["partition"], ["what"], ["leader"], ["in sync"], ["copies left", "n"], ["records at risk", "n"]],
      data.partitions.map((each) => [name(each.name), each.words.join(", "), `${each.leader[0] ?? "none"} → ${each.leader[1] ?? "none"}`,
        `${each.isr[0].join(" ")} → ${each.isr[1].join(" ")}`, each.copies, number(each.atRisk)]), "None would."),
    data.more ? el("p", { class: "quiet" }, `and ${number(data.more)} more`) : null,
  ]);

  /** Return those chosen that are registered at the moment that is shown, as they are asked for. */
  function known() {
    return (grid()?.brokers ?? []).map((broker) => broker.id).filter((each) => chosen.has(each)).join(",");
  }

  function choose() {
    const view = grid();
    if (!view) return;
    const gone = [...chosen].filter((each) => !view.brokers.some((broker) => broker.id === each));
    const racks = Map.groupBy(view.brokers.filter((broker) => broker.rack !== null), (broker) => broker.rack);
    fill(choice, el("legend", {}, "If these brokers died now:"), view.brokers.map((broker) =>
      option(broker.id, broker.rack === null ? null : [" rack ", name(broker.rack)])), gone.map((each) => option(each, " is not registered, and left out")),
    [...racks].map(([rack, brokers]) => el("button", { type: "button", onclick: () => {
      chosen.clear();
      for (const each of brokers) chosen.add(each.id);
      choose();
      ask();
    } }, "rack ", name(rack))));
  }

  function option(id, words) {
    return el("label", {}, el("input", { type: "checkbox", checked: chosen.has(id), onchange: (event) => {
      if (event.target.checked) chosen.add(id);
      else chosen.delete(id);
      ask();
    } }), `${id}`, el("span", { class: "quiet" }, words));
  }

  function ask() {
    history.replaceState(null, "", `#/what-if?brokers=${[...chosen].join(",")}`);
    forecast.load();
    tellNone();
  }

  function tellNone() {
    if (!known()) fill(forecast.node, el("p", { class: "quiet" }, "Choose brokers, or click one in the grid."));
  }

  fill(page, el("h1", {}, "What if"), choice, forecast.node);
  choose();
  tellNone();
  return follows("What if", [forecast], ["partitions", "brokers"], (kind) => {
    if (kind !== "grid") return;
    choose();
    if (known() !== told) forecast.load();
    tellNone();
  });
}

export function auditView(page, asked) {
  const topics = el("select", { "aria-label": "Topic" });
  const deep = el("input", { type: "checkbox" });
  const begin = el("button", { type: "button", class: "deed", onclick: () => run() }, "Compare");
  const verdict = el("p", { role: "status" });
  const found = el("div");
  let aborter = null;

  function offer() {
    const names = grid()?.topics ?? [];
    const before = topics.value || asked.topic;
    fill(topics, names.map((each) => el("option", { value: each, selected: each === before }, each)));
    begin.disabled = store.at !== null || !names.length;
  }

  async function run() {
    aborter?.abort();
    aborter = new AbortController();
    const topic = topics.value;
    const rows = [];
    let total = 0;
    let read = 0;
    let gone = 0;
    const draw = (isDone) => {
      const bad = rows.filter((each) => each.differences.length);
      fill(verdict, `${number(rows.length)} of ${number(total)} partitions of `, name(topic), ` compared${gone ? `, ${number(gone)} deleted meanwhile` : ""}${read ? `, ${bytes(read)} read` : ""}: `,
        bad.length ? el("strong", { class: "bad" }, `${number(bad.length)} differ, or can't be read`) : "no difference", isDone ? "." : " so far …");
      fill(found, table("Differences", [["partition"], ["replicas read", "n"], ["batches", "n"], ["difference"]],
        bad.map((each) => [name(each.name), each.replicas, number(each.batches), each.differences.map((line) => el("div", {}, line))]), ""));
    };
    begin.disabled = true;
    try {
      let drawnAt = 0;
      for await (const line of stream("audit", { topic, deep: deep.checked ? "1" : "" }, aborter.signal)) {
        if (line.error) throw new Error(line.error);
        if (line.partitions !== undefined) total = line.partitions;
        else if (line.isGone) gone += 1;
        else {
          rows.push(line);
          read += line.bytes;
        }
        if (performance.now() - drawnAt > 200) {
          draw(false);
          drawnAt = performance.now();
        }
      }
      draw(true);
    } catch (error) {
      if (error.name !== "AbortError") fill(verdict, el("span", { class: "trouble" }, error.message));
    } finally {
      begin.disabled = store.at !== null;
    }
  }

  const note = el("div");
  const tell = () => fill(note, store.at !== null ? onlyNow("Replicas")
    : grid()?.topics.length === 0 ? el("p", { class: "quiet" }, "There is no topic.") : null);
  fill(page, el("h1", {}, "Audit of replicas"),
    el("p", {}, "Compares what all replicas of a topic have below the high watermark. Each table is read; with files, each byte is."),
    note, el("div", { class: "tools" }, topics, el("label", {}, deep, "with files"), begin), verdict, found);
  offer();
  tell();
  return {
    title: "Audit",
    on(kind) {
      if (kind !== "grid" && kind !== "moment") return;
      offer();
      tell();
    },
    close: () => aborter?.abort(),
  };
}
