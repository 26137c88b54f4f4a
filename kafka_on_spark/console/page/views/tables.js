// Brokers and disks, groups and their lag, voters, reassignments.

import { changeButton, changeForm, mayChange } from "../changes.js";
import { bytes, el, fill, name, number, table, time } from "../dom.js";
import { follows, onlyNow, part } from "../panel.js";
import { store } from "../store.js";
import { fitIds, IDS, longTable } from "../virtual.js";

const PLACES = [["topic", "first", "minmax(160px, 1fr)"], ["partition", "n", "72px"], ["offset", "n", "100px"], ["log start", "n", "100px"],
  ["high watermark", "n", "130px"], ["lag", "n", "100px"], ["next records", null, "110px"]];
const MOVES = [["partition", "first", "minmax(160px, 1fr)"], ["to", null, IDS], ["comes", null, IDS], ["goes", null, IDS],
  ["waits for", null, IDS], ["rate limit", null, "90px"], ["progress", null, "330px"]];

function bar(done, total, words) {
  const share = total ? Math.min(done / total, 1) : 0;
  return el("span", {}, el("span", { class: "bar", "aria-hidden": "true" }, el("i", { place: { width: `${share * 100}%` } })), words);
}

function kinded(kind, cells) {
  cells.kind = kind;
  return cells;
}

export function brokersView(page) {
  const brokers = part("brokers", () => ({}), (data) => [
    el("p", {}, data.controller ? ["The controller is ", el("code", {}, data.controller), `, in epoch ${data.controllerEpoch}.`] : "Nobody is the controller."),
    table("Brokers", [["id", "n"], ["state"], ["rack"], ["leads", "n"], ["prefers", "n"], ["replicas", "n"], ["in sync", "n"], ["lost", "n"],
      ["disk"], ["root"], ["what if"], ...(mayChange() ? [["change"]] : [])],
    data.brokers.map((each) => kinded(each.state === "active" ? null : "bad", [
      each.id,
      each.state === "fenced" ? `fenced since ${time(each.fencedSinceMs)}${each.refuses ? `: ${each.refuses}` : ""}` : each.state,
      each.rack === null ? "" : name(each.rack),
      number(each.leaders), number(each.preferred), number(each.replicas), number(each.inSync), number(each.lost),
      disk(each.disk),
      el("code", {}, each.root),
      el("a", { href: `#/what-if?brokers=${each.id}`, "data-key": `broker ${each.id}` }, `broker ${each.id} dies`),
      ...(mayChange() ? [each.state === "draining"
        ? changeButton("resume", "resume-broker", () => ({ broker: each.id }), { label: `resume broker ${each.id}`, key: `broker ${each.id}` })
        : changeButton("drain", "drain-broker", () => ({ broker: each.id }), { label: `drain broker ${each.id}`, key: `broker ${each.id}` })] : []),
    ]))),
    changeButton("Elect preferred leaders", "elect-leaders", () => ({})),
  ]);
  fill(page, el("h1", {}, "Brokers and disks"), // no commit tells that a disk fills up
    el("div", { class: "tools" }, el("button", { type: "button", onclick: () => brokers.load() }, "Look again")), brokers.node);
  return follows("Brokers", [brokers], ["brokers", "partitions", "controller"]);
}

function disk(found) {
  if (!found) return "";
  if (found.problem) return el("span", { class: "bad" }, found.problem);
  const used = found.total - found.free;
  return bar(used, found.total, `${bytes(found.free)} free of ${bytes(found.total)}`);
}

export function groupsView(page, asked) {
  if (asked.name !== undefined) return groupView(page, asked.name);
  const groups = part("groups", () => ({}), (data) => table("Groups",
    [["group"], ["members", "n"], ["topic"], ["partitions", "n"], ["lag", "n"], ["most in one partition", "n"]],
    data.groups.flatMap((group) => (group.topics.length ? group.topics : [null]).map((topic, at) => [
      at ? "" : el("a", { href: `#/groups?name=${encodeURIComponent(group.name)}`, "data-key": group.name }, name(group.name)),
      at ? "" : number(group.members),
      topic ? name(topic.topic) : "",
      topic ? number(topic.partitions) : "",
      topic ? number(topic.lag) : "",
      topic ? number(topic.most) : "",
    ])), "There is no group."));
  fill(page, el("h1", {}, "Groups"), groups.node);
  return follows("Groups", [groups], ["groups", "partitions"]);
}

function groupView(page, group) {
  const said = el("p", { class: "quiet" });
  const places = longTable({ label: "Offsets", columns: PLACES, isAmidst: true,
    cells: ([topic, partition, offset, start, end, lag]) => [name(topic), partition, number(offset), number(start), number(end), number(lag),
      el("a", { href: `#/messages?topic=${encodeURIComponent(topic)}&partition=${partition}&offset=${offset}`,
        "data-key": `${topic}-${partition}`, "aria-label": `the next records of ${topic}-${partition}` }, "show")] });
  const stands = el("div", { class: "part", hidden: true }, el("h2", {}, "Where it stands"), said, places.node);
  const change = el("div", { class: "part" });
  const detail = part("group", () => ({ name: group }), (data) => {
    stand(data.places);
    offer(data.places);
    return [el("h2", {}, "Members"),
      table("Members", [["member"], ["instance"], ["epoch", "n"], ["topics"], ["owns"], ["shall own"]],
        data.members.map((each) => [name(each.id), each.instance === null ? "" : name(each.instance), each.isAway ? "away" : each.epoch,
          some(each.topics), some(each.owned), some(each.target)]), "It has no members.")];
  }, () => {
    stands.hidden = true;
    fill(change);
  });

  function stand(rows) {
    stands.hidden = false;
    places.node.hidden = !rows.length;
    fill(said, rows.length ? `Partitions: ${number(rows.length)}; lag in all: ${number(rows.reduce((sum, row) => sum + row.at(-1), 0))}.`
      : "It has committed no offset.");
    places.renew(rows);
  }

  function some({ count, first }) {
    return [name(first.join(", ")), count > first.length ? ` and ${number(count - first.length)} more` : null];
  }

  /** Offer changes, unless they are offered: what was typed stays. */
  function offer(rows) {
    if (mayChange() === (change.firstChild !== null)) return;
    const topic = el("input", { "aria-label": "Topic", placeholder: "topic", required: true, value: rows[0]?.[0] });
    const input = (title) => el("input", { type: "number", min: "0", required: true, "aria-label": title, placeholder: title.toLowerCase() });
    const [partition, offset] = [input("Partition"), input("Offset")];
    fill(change, mayChange() ? [el("h2", {}, "Change"),
      changeForm("Set the offset", "set-group-offset", [topic, partition, offset],
        () => ({ group, topic: topic.value, partition: Number(partition.value), offset: Number(offset.value) })),
      changeButton("Delete all its offsets", "delete-group", () => ({ group }), { typed: group })] : null);
  }

  fill(page, el("h1", {}, "Group ", name(group)), stands, detail.node, change);
  const view = follows(`Group ${group}`, [detail], ["groups", "partitions"]);
  return { ...view, close() {
    view.close();
    places.close();
  } };
}

export function votersView(page) {
  const voters = part("voters", () => (store.at === null ? {} : null), (data) => [
    el("p", {}, `${data.sentence[0].toUpperCase()}${data.sentence.slice(1)}; the log is committed to ${number(data.highWatermark)}.`),
    table("Voters", [["id", "n"], ["state"], ["epoch", "n"], ["log end", "n"], ["behind", "n"], ["root"], ["problem"]],
      data.voters.map((each) => kinded(["Leader", "Follower"].includes(each.state) ? null : "bad", [
        each.id, each.state, each.epoch ?? "?", each.logEnd === null ? "?" : number(each.logEnd), each.behind === null ? "?" : number(each.behind),
        el("code", {}, each.root), each.problem ?? ""]))),
  ]);
  const note = el("div");
  fill(page, el("h1", {}, "Metadata voters"),
    el("div", { class: "tools" }, el("button", { type: "button", onclick: () => voters.load() }, "Ask them again")), note, voters.node);
  const told = () => {
    fill(note, store.at === null ? null : onlyNow("The voters"));
    voters.node.hidden = store.at !== null;
  };
  told();
  return follows("Voters", [voters], ["partitions", "groups", "brokers", "controller"], (kind) => {
    if (kind === "moment") told();
  });
}

export function movesView(page) {
  let progress = {};
  let view = null;
  let list = null;
  let isOffered = null;
  const said = el("p", { class: "quiet" });
  const body = el("div", { class: "part" });
  const moves = part("moves", () => ({}), (data) => {
    view = data;
    progress = store.at === null ? { ...progress, ...data.progress } : {}; // the answer has the first moves' only
    draw();
    fitIds(list, data.moves.flatMap((each) => [each.target, each.adding, each.removing, each.waitsFor].map((ids) => ids.join(" "))));
    return said;
  }, () => {
    view = null;
    body.hidden = true;
  });

  function draw() {
    if (view === null) return;
    arrange();
    body.hidden = !view.moves.length;
    fill(said, view.moves.length ? `Partitions that move: ${number(view.moves.length)}.` : "Nothing is being reassigned.");
    list.renew(view.moves.map((each) => ({ ...each, copied: progress[each.name] })));
  }

  /** Make the list, with a column of changes where they may be made: not in the past, for one. */
  function arrange() {
    if (isOffered === mayChange()) return;
    isOffered = mayChange();
    list?.close();
    list = longTable({ label: "Reassignments", columns: isOffered ? [...MOVES, ["change", null, "90px"]] : MOVES, cells, isAmidst: true });
    fill(body, list.node);
  }

  function cells(each) {
    return [
      el("a", { href: `#/topic?name=${encodeURIComponent(each.topic)}`, "data-key": each.name }, name(each.name)),
      each.target.join(" "), each.adding.join(" "), each.removing.join(" "), each.waitsFor.join(" ") || "nobody",
      each.throttle === null ? "" : `${bytes(each.throttle)}/s`,
      copied(each.copied),
      ...(isOffered ? [changeButton("cancel", "cancel-reassignment", () => ({ topic: each.topic, partition: each.partition }),
        { label: `cancel the move of ${each.name}` })] : []),
    ];
  }

  function copied(found) {
    if (!found) return "";
    const [done, total] = found;
    return bar(done, total, total ? `${Math.floor((done / total) * 100)} %: ${bytes(done)} of ${bytes(total)}` : "nothing to copy");
  }

  fill(page, el("h1", {}, "Reassignments"), moves.node, body);
  const following = follows("Reassignments", [moves], ["partitions"], (kind, detail) => {
    if (kind !== "progress" || store.at !== null) return;
    progress = detail;
    draw();
  });
  return { ...following, close() {
    following.close();
    list?.close();
  } };
}
