// Makes nodes. The one file that writes text into the page: as text, and all of it visible.
//
// Names, keys, causes and paths are what users wrote. None of it is ever markup, and none of it
// changes how the text beside it reads.

const UNSEEN = /[\p{C}\u2028\u2029]/gu;
const SVG = "http://www.w3.org/2000/svg";
const ENGLISH = new Intl.NumberFormat("en");

/** Return text with each character that is not visible as an escape, as terminals get it too. */
export function shown(text, keep = "") {
  return String(text).replace(UNSEEN, (each) => (keep.includes(each) ? each : escaped(each)));
}

function escaped(character) {
  const code = character.codePointAt(0);
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

/** Return an element. Properties are attributes, or functions for events: `onclick`. */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Return an element of a drawing. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "place") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else node.setAttribute(name, value === true ? "" : shown(value));
  }
  append(node, children);
  return node;
}

/** Append nodes and texts; null is left out. */
export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(shown(child)));
  }
}

/** Have a node hold these nodes and texts only. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Return a block of text whose lines stay lines. */
export function lines(text) {
  return el("pre", { tabindex: "0" }, document.createTextNode(shown(text, "\n\t")));
}

/** Return a name that users chose: it keeps its own direction. */
export function name(text) {
  return el("bdi", { class: "name" }, text);
}

/** Return a number for people. */
export function number(value) {
  return value === null || value === undefined ? "" : ENGLISH.format(Number(value));
}

/** Return ms since 1970 as a time in UTC. */
export function time(ms) {
  return ms === null || ms === undefined ? "" : new Date(ms).toISOString().replace("T", " ").slice(0, 23);
}

/** Return a table: columns are [title, class], rows are lists of cells. */
export function table(caption, columns, rows, empty = "There is none.") {
  if (!rows.length) return el("p", { class: "quiet" }, empty);
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {},
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title)))),
      el("tbody", {}, rows.map((row) =>
        el("tr", { class: row.kind }, row.map((cell, at) => el("td", { class: columns[at][1] }, cell)))))));
}

/** Return the node below another that has a key. */
export function keyed(node, key) {
  return [...node.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
}

/** Tell readers of the screen. */
export function say(sentence) {
  fill(document.getElementById("said"), sentence);
}
