// The upkeep of one partition of a topic: what was merged, compacted and retained, and what is due.
// Its replicas' tables are read for it, so it is asked for when people open it, and not followed.

import { bytes, el, fill, name, number, table, time } from "../dom.js";
import { onlyNow, part } from "../panel.js";
import { store } from "../store.js";

/** Return what a topic's view shows of upkeep, folded. */
export function upkeepOf(topic) {
  const partition = el("input", { type: "number", min: "0", value: "0", onchange: () => found.load() });
  const found = part("upkeep", () => (node.open && store.at === null ? { topic, partition: partition.value } : null), draw);
  const note = el("div");
  const node = el("details", { class: "part", ontoggle: () => found.load() }, el("summary", {}, "Upkeep: what was merged, compacted and retained"),
    note, el("div", { class: "tools" }, el("label", {}, "of partition", partition),
      el("button", { type: "button", onclick: () => found.load() }, "Look again")), found.node);

  function draw(data) {
    return [
      el("p", {}, name(data.name), ` begins at offset ${number(data.logStart)}`,
        data.compactedBelow ? `, and is compacted below ${number(data.compactedBelow)}.` : "."),
      table("Logs of its replicas", [["broker", "n"], ["role", "t"], ["log start", "n"], ["log end", "n"], ["records", "n"], ["files of one append", "n"],
        ["merged files", "n"], ["compacted below", "n"], ["due", "brief"], ["problem"]],
      data.replicas.map((each) => [each.broker, each.role, ...figures(each.log), each.due.map((line) => el("div", {}, line)),
        each.problem === null ? "" : el("span", { class: "bad" }, each.problem)])),
      el("h2", {}, "Done by its replicas"),
      table("Done by its replicas", [["work"], ["times", "n"], ["took", "n"], ["put in their place", "n"], ["records fewer", "n"]],
        data.sums.map(([kind, count, taken, put, takenBytes, putBytes, gone]) =>
          [kind, number(count), files([taken, takenBytes]), files([put, putBytes]), number(gone)]), "Nothing, as far as is known."),
      el("h2", {}, "Decided and done"),
      data.eventCount > data.events.length ? el("p", { class: "quiet" }, `the newest ${number(data.events.length)} of ${number(data.eventCount)}`) : null,
      table("Decided and done", [["time (UTC)", "t"], ["broker", "n"], ["what", "why"], ["from offset", "n"], ["to", "n"], ["by", "brief"]],
        data.events.map(([ms, broker, what, start, end, by]) =>
          [time(ms), broker === null ? "" : broker, name(what), number(start), number(end), name(by ?? "")]), "Nothing, as far as is known."),
      data.unread.map((each) => el("p", { class: "trouble" }, `${each}: what it did is not known`)),
      data.incomplete.length ? el("p", { class: "quiet" }, `Old commits are deleted; only later ones are shown of ${data.incomplete.join(", ")}.`) : null,
    ];
  }

  function figures(log) {
    return log === null ? ["?", "?", "?", "?", "?", "?"]
      : [number(log.start), number(log.end), number(log.records), files(log.plain), files(log.merged), number(log.compactedBelow)];
  }

  function files([count, size]) {
    return count ? `${number(count)} (${bytes(size)})` : "0";
  }

  function told() {
    const isPast = store.at !== null;
    fill(note, isPast ? onlyNow("Upkeep") : null);
    found.node.hidden = isPast;
    found.load();
  }

  told();
  return { node, told, close: found.close };
}
