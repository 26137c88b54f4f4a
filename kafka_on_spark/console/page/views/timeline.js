// The timeline: what each replica was, and every decision with its cause. A place in it is a moment
// that the whole page goes back to.

import { el, fill, name, number, svg, table, time } from "../dom.js";
import { follows, part } from "../panel.js";
import { store } from "../store.js";

const LABELS = 150;
const WIDTH = 1000;
const REPLICA = 13;
const GAP = 9;
const AXIS = 22;
const TICKS = 6;
const NARROWEST_MS = 20;

export function timelineView(page, asked, moments) {
  let data = null;
  let span = null; // [from, to] in ms; null: all
  const drawing = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Lanes" });
  const words = el("p", { class: "quiet", role: "status" });

  const timeline = part("timeline", () => ({ topic: asked.topic, partition: asked.partition, at: null }), (found) => {
    data = found;
    draw();
    return [el("h2", {}, "Decisions"), decisions(found), el("h2", {}, "Brokers"), brokers(found)];
  });

  function first() {
    const starts = data.lanes.flatMap((lane) => lane.replicas.flatMap(([, spans]) => spans.map(([start]) => start)));
    return Math.min(...starts, data.endMs - 1000);
  }

  function bounds() {
    return span ?? [first(), data.endMs];
  }

  function x(ms) {
    const [from, to] = bounds();
    return LABELS + ((ms - from) / (to - from)) * (WIDTH - LABELS);
  }

  function draw() {
    const height = AXIS + data.lanes.reduce((sum, lane) => sum + lane.replicas.length * REPLICA + GAP, 0);
    const [from, to] = bounds();
    const marks = [];
    for (let at = 0; at <= TICKS; at += 1) {
      const ms = from + ((to - from) * at) / TICKS;
      marks.push(svg("line", { class: "guide", x1: x(ms), x2: x(ms), y1: AXIS - 4, y2: height }),
        svg("text", { class: "axis", x: x(ms), y: 12, "text-anchor": at === TICKS ? "end" : at ? "middle" : "start" },
          time(ms).slice(to - from > 86400000 ? 5 : 11, to - from > 60000 ? 19 : 23)));
    }
    let y = AXIS;
    for (const lane of data.lanes) {
      marks.push(svg("text", { x: 4, y: y + 10 }, lane.name.length > 17 ? `…${lane.name.slice(-16)}` : lane.name, svg("title", {}, lane.name)));
      for (const [start, end] of lane.leaderless) {
        marks.push(box("none", start, end, y - 3, lane.replicas.length * REPLICA + 4, `${lane.name}: no leader`));
      }
      for (const [broker, spans] of lane.replicas) {
        marks.push(svg("text", { class: "axis", x: LABELS - 6, y: y + 10, "text-anchor": "end" }, broker));
        for (const [start, end, epoch, isInSync] of spans) {
          const what = epoch !== null ? `leader in epoch ${epoch}` : isInSync ? "in sync" : "out of sync";
          const kind = epoch !== null ? "lead" : isInSync ? "sync" : "out";
          const words = `${lane.name} on broker ${broker}: ${what}, ${time(start)} to ${time(end)}`;
          marks.push(box(kind, start, end, y, REPLICA - 3, words));
          const left = Math.max(x(start), LABELS);
          if (epoch !== null && Math.min(x(end), WIDTH) - left > 26) marks.push(svg("text", { class: "inside", x: left + 4, y: y + 9 }, `L${epoch}`));
        }
        y += REPLICA;
      }
      y += GAP;
    }
    if (store.at !== null) {
      const at = Math.min(Math.max(x(store.past.timeMs), LABELS), WIDTH);
      marks.push(svg("line", { class: "cursor", x1: at, x2: at, y1: 0, y2: height }));
    }
    const picture = svg("svg", { class: "lanes", viewBox: `0 0 ${WIDTH} ${height}`, role: "img",
      "aria-label": `Leaders and replicas in sync of ${data.lanes.length} partitions over time; the table below says the same.`,
      onclick: (event) => moments.goToTime(msAt(event)) }, marks);
    fill(drawing, data.lanes.length ? picture : el("p", { class: "quiet" }, "Nothing has changed yet."));
    fill(words, `${time(from)} to ${time(to)} UTC`, data.laneCount > data.lanes.length
      ? `; the ${data.lanes.length} of ${number(data.laneCount)} partitions that changed last` : null);
  }

  function box(kind, start, end, y, height, title) {
    const left = Math.max(x(start), LABELS);
    const right = Math.min(x(end), WIDTH);
    return right < LABELS || left > WIDTH ? null
      : svg("rect", { class: kind, x: left, y, width: Math.max(right - left, 1), height, rx: 2 }, svg("title", {}, title));
  }

  function msAt(event) {
    const frame = event.currentTarget.getBoundingClientRect();
    const place = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const [from, to] = bounds();
    return from + (Math.max(place - LABELS, 0) / (WIDTH - LABELS)) * (to - from);
  }

  function zoom(factor) {
    if (!data) return;
    const [from, to] = bounds();
    const middle = (from + to) / 2;
    show([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }

  function move(share) {
    if (!data) return;
    const [from, to] = bounds();
    show([from + (to - from) * share, to + (to - from) * share]);
  }

  function show(wanted) {
    const [least, most] = [first(), data.endMs];
    const width = Math.max(wanted ? wanted[1] - wanted[0] : Infinity, NARROWEST_MS);
    if (width >= most - least) span = null;
    else {
      const from = Math.min(Math.max(wanted[0], least), most - width);
      span = [from, from + width];
    }
    draw();
  }

  function asOf(end, ms, what) {
    return el("button", { type: "button", "data-key": `as of ${end} ${what}`, "aria-label": `the page as of ${time(ms)}: ${what}`,
      onclick: () => moments.goBehind(end) }, "as of");
  }

  function decisions(found) {
    const rows = found.decisions.slice(0, 300);
    return [
      found.decisionCount > rows.length ? el("p", { class: "quiet" }, `the newest ${number(rows.length)} of ${number(found.decisionCount)}`) : null,
      table("Decisions", [["time (UTC)", "t"], ["partition"], ["leader", "n"], ["epoch", "n"], ["in sync"], ["cause", "why"], ["by", "brief"], ["page"]],
        rows.map(([ms, partition, leader, epoch, isr, cause, by, end]) => {
          const cells = [time(ms), name(partition), leader === null ? "none" : leader, epoch, isr.join(" "), name(cause ?? ""), name(by ?? ""), asOf(end, ms, partition)];
          if (leader === null) cells.kind = "bad";
          return cells;
        })),
    ];
  }

  function brokers(found) {
    return table("What happened to brokers", [["time (UTC)", "t"], ["broker", "n"], ["event"], ["cause", "why"], ["page"]],
      found.brokers.slice(0, 300).map(([ms, broker, event, cause, end]) =>
        [time(ms), broker, event, name(cause ?? ""), asOf(end, ms, `broker ${broker} ${event}`)]));
  }

  const button = (title, label, act) => el("button", { type: "button", "aria-label": label, onclick: act }, title);
  const scope = asked.topic ? [el("strong", {}, name(asked.partition === undefined ? asked.topic : `${asked.topic}-${asked.partition}`)),
    el("a", { href: "#/timeline" }, "all partitions")] : el("span", {}, "all partitions");
  fill(page, el("h1", {}, "Timeline"),
    el("div", { class: "tools" }, scope, button("+", "zoom in", () => zoom(0.5)), button("−", "zoom out", () => zoom(2)),
      button("◂", "earlier", () => move(-0.4)), button("▸", "later", () => move(0.4)), button("all", "all of the time", () => data && show(null))),
    el("ul", { class: "legend", "aria-label": "Colours" }, [["l", "leader, with its epoch"], ["s", "in sync"], ["o", "out of sync"], ["f", "no leader"]]
      .map(([kind, title]) => el("li", {}, el("i", { class: `c ${kind}`, "aria-hidden": "true" }), title))),
    words, drawing, timeline.node);
  const view = follows("Timeline", [timeline], ["partitions", "brokers"]);
  return { ...view, on(kind, detail) {
    if (kind === "moment") {
      if (data) draw(); // the timeline itself is of all times
    } else view.on(kind, detail);
  } };
}
