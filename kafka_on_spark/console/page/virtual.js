// A list of any length, of which only the rows in view are nodes.

import { el, keyed } from "./dom.js";

/** How high rows of one line are. */
export const ROW = 28;

/** How wide columns of one broker id, and of several, are; `fitIds` makes them wider. */
export const ID = "max(56px, var(--id, 0px))";
export const IDS = "max(64px, var(--ids, 0px))";

const DIGIT_EM = 0.65; // not `ch`, which is another in a head, whose letters are bold

const OVERSCAN = 12;

/** A list in a region that scrolls. `render(item, index)` returns a row, `height` pixels high. */
export class VirtualList {
  constructor({ label, height, render, columns = null }) {
    Object.assign(this, { height, render, items: [], nodes: new Map(), head: null });
    this.canvas = el("div", { role: "table", class: "canvas", "aria-label": label, "aria-colcount": columns });
    this.node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label,
      onscroll: () => this.update() }, this.canvas);
    new ResizeObserver(() => this.update()).observe(this.node);
  }

  /** Show what has become of the items: a row is drawn anew if it looks otherwise, so that what people
   * are about to click stays. `head` is a row that stays in view. */
  set(items, head = this.head) {
    const focused = this.canvas.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    this.items = items;
    if (this.head === null || !this.head.isEqualNode(head)) {
      this.head?.remove();
      this.head = head;
      this.canvas.prepend(head);
    }
    this.canvas.setAttribute("aria-rowcount", items.length + 1);
    const height = (items.length + 1) * this.height;
    this.canvas.style.height = `${height}px`;
    this.node.style.setProperty("--height", `${height}px`);
    for (const [index, node] of this.nodes) {
      const fresh = index < items.length ? this.row(index) : null;
      if (fresh?.isEqualNode(node)) continue;
      if (fresh) this.nodes.set(index, fresh);
      else this.nodes.delete(index);
      node.replaceWith(...(fresh ? [fresh] : []));
    }
    this.update();
    if (focused && !this.canvas.contains(document.activeElement)) keyed(this.canvas, focused)?.focus({ preventScroll: true });
  }

  update() {
    const first = Math.max(Math.floor(this.node.scrollTop / this.height) - OVERSCAN, 0);
    const last = Math.min(Math.ceil((this.node.scrollTop + this.node.clientHeight) / this.height) + OVERSCAN, this.items.length);
    for (const [index, node] of this.nodes) {
      if ((index >= first && index < last) || node.contains(document.activeElement)) continue;
      node.remove();
      this.nodes.delete(index);
    }
    let after = this.head;
    for (let index = first; index < last; index += 1) {
      if (!this.nodes.has(index)) {
        this.nodes.set(index, this.row(index));
        after.after(this.nodes.get(index));
      }
      after = this.nodes.get(index);
    }
  }

  row(index) {
    const node = this.render(this.items[index], index);
    node.style.setProperty("top", `${(index + 1) * this.height}px`);
    node.setAttribute("aria-rowindex", index + 2);
    return node;
  }
}

/** Have columns of broker ids hold the longest of some lists of them: an id has up to ten digits. */
export function fitIds(list, texts) {
  const widen = (column, some) => list.node.style.setProperty(column,
    `${some.reduce((most, text) => Math.max(most, text.length), 0) * DIGIT_EM}em`);
  widen("--ids", texts);
  widen("--id", texts.flatMap((text) => text.split(" ")));
}

/** Return a list that is a table with a head: columns are [title, class, width], `cells(item)` are
 * those of a row, and `kind(item)` its class. `isAmidst`: it is as high as its rows, up to a bound,
 * since more of the view comes below it; else it fills the view. */
export function longTable({ label, columns, cells, kind = () => "", isAmidst = false }) {
  const row = (kinds, roles, contents) => el("div", { class: `row cells ${kinds}`, role: "row" }, contents.map((content, at) =>
    el("span", { role: at ? roles[1] : roles[0], class: columns[at][1] }, content)));
  const head = row("head", ["columnheader", "columnheader"], columns.map(([title]) => title));
  const list = new VirtualList({ label, height: ROW, columns: columns.length,
    render: (item) => row(kind(item), ["rowheader", "cell"], cells(item)) });
  list.node.style.setProperty("--columns", columns.map(([, , width]) => width).join(" "));
  list.node.classList.toggle("amidst", isAmidst);
  list.set([], head);
  return list;
}
