// Groups and their lag.

import { el, fill, name, number, table } from "../dom.js";
import { follows, part } from "../panel.js";
import { longTable } from "../virtual.js";

const PLACES = [["topic", "first", "minmax(160px, 1fr)"], ["partition", "n", "72px"], ["offset", "n", "100px"], ["log start", "n", "100px"],
  ["high watermark", "n", "130px"], ["lag", "n", "100px"], ["next records", null, "110px"]];

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
  const detail = part("group", () => ({ name: group }), (data) => {
    stand(data.places);
    return [el("h2", {}, "Members"),
      table("Members", [["member"], ["instance"], ["client"], ["host"], ["process", "n"], ["epoch", "n"], ["topics"], ["owns"], ["shall own"]],
        data.members.map((each) => [name(each.id), ...[each.instance, each.client_id, each.host, each.process_id].map((text) => text === null ? "" : name(String(text))),
          each.isAway ? "away" : each.epoch,
          some(each.topics), some(each.owned), some(each.target)]), "It has no members.")];
  }, () => {
    stands.hidden = true;
  });

  function stand(rows) {
    stands.hidden = false;
    places.node.hidden = !rows.length;
    fill(said, rows.length ? `Partitions: ${number(rows.length)}; lag in all: ${number(rows.reduce((sum, row) => sum + row.at(-1), 0))}.`
      : "It has committed no offset.");
    places.set(rows);
  }

  function some({ count, first }) {
    return [name(first.join(", ")), count > first.length ? ` and ${number(count - first.length)} more` : null];
  }

  fill(page, el("h1", {}, "Group ", name(group)), stands, detail.node);
  return follows(`Group ${group}`, [detail], ["groups", "partitions"]);
}
