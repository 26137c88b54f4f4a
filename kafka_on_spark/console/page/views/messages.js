// Records: by offset, by time, by key, or as they come.

import { get } from "../api.js";
import { el, fill, lines, name, number, table, time } from "../dom.js";
import { grid, isFollowed, store } from "../store.js";

const TAIL_MAX = 500;
const PEEK = 120;
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const DEPTH_MAX = 60; // what is nested deeper is set in no further

/** Return the text of bytes, or null if they are none; the last character of a part may be cut. */
function textOf(content, isPart) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content, { stream: isPart });
  } catch {
    return null;
  }
}

function hexOf(content) {
  const rows = [];
  for (let at = 0; at < content.length; at += 16) {
    const part = [...content.slice(at, at + 16)];
    const digits = part.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const letters = part.map((each) => (each >= 0x20 && each < 0x7f ? String.fromCharCode(each) : ".")).join("");
    rows.push(`${at.toString(16).padStart(8, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return rows.join("\n");
}

/** Return bytes as text if they are, else in hexadecimal. */
function formed(found) {
  const content = Uint8Array.from(atob(found.base64), (each) => each.charCodeAt(0));
  return textOf(content, content.length < found.size) ?? hexOf(content);
}

/** Return JSON in lines, of the text that was written: a number of JavaScript has fewer digits, and an
 * object has no name twice. Another text stays as it is. */
function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let lines = "";
  let depth = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(Math.min(depth, DEPTH_MAX))}`;
  for (const [token] of text.matchAll(TOKENS)) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    if (before === "{" || before === "[" ? !isEnd : isEnd || before === ",") lines += line();
    lines += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return lines;
}

/** Return the ms since 1970 of a time in UTC, or null; `Date.parse` alone takes "1", and the 31st of February. */
function timeOf(text) {
  const parts = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?))?(?: ?(?:Z|UTC))?$/.exec(text);
  const ms = parts === null ? NaN : Date.parse(`${parts[1]}T${parts[2] ?? "00:00"}Z`);
  return Number.isNaN(ms) || !time(ms).startsWith(parts[1]) ? null : ms;
}

/** Return how a text begins, in whole characters. */
function beginning(text) {
  return text.length > PEEK ? `${text.slice(0, PEEK).replace(/[\ud800-\udbff]$/, "")} …` : text;
}

export function messagesView(page, asked) {
  const topics = el("select", { "aria-label": "Topic", onchange: chosen });
  const partition = el("input", { type: "number", min: "0", value: asked.partition ?? "0", "aria-label": "Partition", onchange: () => load({}) });
  const by = el("select", { "aria-label": "Begin at", onchange: () => offerValue() },
    [["end", "the newest"], ["offset", "an offset"], ["time", "a time (UTC)"], ["key", "a key"]].map(([value, title]) => el("option", { value }, title)));
  const value = el("input", { "aria-label": "Where to begin", onkeydown: (event) => { if (event.key === "Enter") find(); } });
  const tail = el("input", { type: "checkbox", onchange: () => follow() });
  const status = el("p", { class: "quiet", role: "status" });
  const found = el("div", { class: "part" });
  const before = el("button", { type: "button", onclick: () => load({ offset: Math.max(shown.start - 50, shown.logStart) }) }, "◂ older");
  const after = el("button", { type: "button", onclick: () => load({ offset: nextOffset() }) }, "newer ▸");
  let shown = null;
  let last = {};
  const drawn = new Map(); // the nodes of records: what people opened stays open while others come
  let hasFailed = false;
  let isLoading = false;
  let isAgain = false;
  let turn = 0;

  function offer() {
    const view = grid();
    if (!view) return;
    const kept = topics.value || asked.topic;
    // One that is not there stays chosen: nothing of another is shown in its place.
    const names = !kept || view.topics.includes(kept) ? view.topics : [kept, ...view.topics];
    fill(topics, names.map((each) => el("option", { value: each, selected: each === kept }, each)));
    partitions();
  }

  function isThere() {
    return grid()?.topics.includes(topics.value);
  }

  function partitions() {
    if (!isThere()) return;
    const most = grid().rows.reduce((found, row) => (row.topic === topics.value ? Math.max(found, row.partition) : found), 0);
    partition.max = String(most);
  }

  /** Go to another topic, which may have fewer partitions. */
  function chosen() {
    partitions();
    if (Number(partition.value) > Number(partition.max)) partition.value = "0";
    load({});
  }

  function offerValue() {
    value.hidden = by.value === "end";
    value.type = by.value === "offset" ? "number" : "text";
    value.placeholder = by.value === "time" ? "2026-01-31 12:00:00" : by.value === "key" ? "the key, as text" : "0";
    partition.disabled = by.value === "key";
  }

  function nextOffset() {
    return shown.records.length ? shown.records.at(-1).offset + 1 : shown.start;
  }

  function find() {
    if (by.value === "offset") load({ offset: value.value.trim() || 0 });
    else if (by.value === "key") load({ key: value.value });
    else if (by.value === "time") {
      const ms = timeOf(value.value.trim());
      if (ms === null) fill(status, el("span", { class: "trouble" }, "Give a time such as 2026-01-31 12:00:00, in UTC."));
      else load({ time: ms });
    } else load({});
  }

  async function load(parameters) {
    if (!topics.value) {
      if (grid()) fill(status, "There is no topic.");
      return;
    }
    const mine = (turn += 1);
    last = parameters;
    hasFailed = false;
    shown = null; // what is on the page is not followed any more
    before.disabled = after.disabled = true;
    fill(status, "Reads …");
    try {
      const data = await get("messages", { topic: topics.value, partition: partition.value, at: store.at, ...parameters });
      if (mine !== turn) return;
      shown = data;
      redraw();
      follow();
    } catch (error) {
      if (mine !== turn) return;
      hasFailed = true;
      [...drawn.keys()].forEach(drop);
      fill(status, el("span", { class: "trouble" }, error.message));
    }
  }

  function redraw() {
    if (!shown) return;
    const records = new Set(shown.records);
    for (const record of drawn.keys()) if (!records.has(record)) drop(record);
    for (const record of shown.records) { // the oldest first: what is there already is older than what comes
      if (drawn.has(record)) continue;
      drawn.set(record, message(record));
      found.prepend(drawn.get(record));
    }
    before.disabled = shown.start <= shown.logStart || shown.partition !== undefined;
    after.disabled = nextOffset() >= shown.end || shown.partition !== undefined;
    const where = `offsets ${number(shown.logStart)} to ${number(shown.end)}`;
    if (shown.partition !== undefined) {
      fill(status, `${number(shown.records.length)} records of the key in partition ${shown.partition}; `,
        shown.isLookedThrough ? "all of it was looked through." : ["looked back to offset ", number(shown.start), " ",
          el("button", { type: "button", onclick: () => load({ ...last, before: shown.start }) }, "look further back")]);
    } else fill(status, shown.records.length ? `${number(shown.records.length)} records, the newest first; the partition has ${where}.`
      : `There is no record from offset ${number(shown.start)} on; the partition has ${where}.`);
  }

  function drop(record) {
    drawn.get(record).remove();
    drawn.delete(record);
  }

  function message(record) {
    const value = record.value === null ? "no value (a tombstone)" : indented(formed(record.value));
    const key = record.key === null ? "no key" : formed(record.key);
    return el("details", { class: "message" },
      el("summary", {}, el("strong", {}, number(record.offset)), " ", el("span", { class: "quiet" }, time(record.timeMs)), " ",
        name(beginning(key)), " ", el("span", { class: "mono quiet" }, name(beginning(value).replaceAll("\n", " ")))),
      el("dl", {},
        el("dt", { class: "quiet" }, record.isAppendTime ? "appended" : "created"), el("dd", {}, `${time(record.timeMs)} UTC`),
        el("dt", { class: "quiet" }, "key"), el("dd", {}, record.key === null ? "none" : lines(key)),
        el("dt", { class: "quiet" }, "value"), el("dd", {}, record.value === null ? "none: a tombstone" : [lines(value), rest(record)]),
        record.headers.length ? [el("dt", { class: "quiet" }, "headers"), el("dd", {}, table("Headers", [["name"], ["value"]],
          record.headers.map(([title, content]) => [name(title), content === null ? "none" : lines(formed(content))])))] : null));
  }

  function rest(record) {
    const shownBytes = Math.floor((record.value.base64.length * 3) / 4);
    if (record.value.size <= shownBytes) return el("span", { class: "quiet" }, `${number(record.value.size)} bytes`);
    return el("span", {}, `${number(record.value.size)} bytes, of which the beginning is shown `, el("button", { type: "button",
      onclick: () => load({ offset: record.offset, count: 1 }) }, "show all of it"));
  }

  /** Take what was committed since, if the page is to follow the end. */
  async function follow() {
    isAgain = true;
    if (isLoading) return;
    isLoading = true;
    while (isAgain) {
      isAgain = false;
      const isShown = shown !== null && shown.partition === undefined;
      if (tail.checked && store.at === null && isShown) await takeNew();
    }
    isLoading = false;
  }

  async function takeNew() {
    const mine = turn;
    const offset = Math.max(nextOffset(), shown.logStart);
    const isFar = shown.end - offset > TAIL_MAX; // what lies between would be read to be thrown away
    try {
      const data = await get("messages", { topic: topics.value, partition: partition.value, ...(isFar ? {} : { offset }) });
      if (mine !== turn) return; // something else is shown by now, or will be
      shown = isFar ? data : { ...data, start: shown.start, records: [...shown.records, ...data.records].slice(-TAIL_MAX) };
      if (data.records.length) redraw();
      if (nextOffset() < data.end && data.records.length) isAgain = true;
    } catch (error) {
      if (mine === turn) fill(status, el("span", { class: "trouble" }, error.message));
    }
  }

  fill(page, el("h1", {}, "Messages"),
    el("div", { class: "tools" }, topics, partition, by, value, el("button", { type: "button", class: "deed", onclick: find }, "Show"),
      el("label", {}, tail, "follow the end")),
    el("div", { class: "tools" }, before, after), status, found);
  if (asked.offset !== undefined) {
    by.value = "offset";
    value.value = asked.offset;
  }
  offerValue();
  offer();
  if (grid()) find();
  return {
    title: "Messages",
    on(kind, detail) {
      if (kind === "grid") {
        const isFirst = !topics.value;
        offer();
        if (isFirst) find();
        else if (hasFailed || (shown !== null && !isThere())) load(last);
        else follow();
      }
      if (kind === "moment" || (kind === "trouble" && hasFailed && isFollowed())) load(last);
      if (kind === "rows" && detail.includes(`${topics.value}-${partition.value}`)) follow();
    },
    close() {
      turn += 1;
      tail.checked = false;
    },
  };
}
