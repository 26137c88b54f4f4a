// What if brokers died.

import { el, fill, name, number, table } from "../dom.js";
import { follows, part } from "../panel.js";
import { grid } from "../store.js";

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
