// A list of any length, of which only the rows in view are nodes.

import { el } from "./dom.js";

/** How high rows of one line are. */
export const ROW = 28;

/** How wide columns of one broker id, and of several, are; `fitIds` makes them wider. */
export const ID = "max(56px, var(--id, 0px))";
export const IDS = "max(64px, var(--ids, 0px))";

const DIGIT_EM = 0.65; // not `ch`, which is another in a head, whose letters are bold

const OVERSCAN = 12;
const PRINTED_MAX = 20000;

/** A list in a region that scrolls. `render(item, index)` returns a row, `height` pixels high. */
export class VirtualList {
  constructor({ label, height, render, head = null, columns = null }) {
    this.height = height;
    this.render = render;
    this.items = [];
    this.nodes = new Map();
    this.head = head;
    this.canvas = el("div", { role: "table", class: "canvas", "aria-label": label, "aria-colcount": columns });
    this.node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label,
      onscroll: () => this.soon() }, this.canvas);
    this.observer = new ResizeObserver(() => this.soon());
    this.observer.observe(this.node);
    this.isPrinted = false;
    this.print = () => this.draw(true);
    this.printed = () => this.draw(false);
    addEventListener("beforeprint", this.print);
    addEventListener("afterprint", this.printed);
  }

  /** Forget the page: nothing is drawn any more. */
  close() {
    this.observer.disconnect();
    removeEventListener("beforeprint", this.print);
    removeEventListener("afterprint", this.printed);
  }

  /** Show other items. `head` is a row that stays in view. */
  set(items, head = this.head) {
    const focused = this.canvas.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    this.items = items;
    this.head = head;
    this.nodes.clear();
    this.canvas.replaceChildren();
    if (head) this.canvas.append(head);
    this.canvas.setAttribute("aria-rowcount", items.length + (head ? 1 : 0));
    this.top = head ? this.height : 0;
    const height = items.length * this.height + this.top;
    this.canvas.style.height = `${height}px`;
    this.node.style.setProperty("--height", `${height}px`);
    this.update();
    if (focused) [...this.canvas.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus({ preventScroll: true });
  }

  /** Draw rows anew whose items changed; `isChanged(item)` says which. */
  refresh(isChanged) {
    for (const [index, node] of this.nodes) if (isChanged(this.items[index])) this.redraw(index, node);
  }

  /** Show what has become of the items: a row is drawn anew if its item is another. */
  renew(items) {
    if (items.length !== this.items.length) {
      this.set(items);
      return;
    }
    const before = this.items;
    this.items = items;
    for (const [index, node] of this.nodes) {
      if (JSON.stringify(before[index]) !== JSON.stringify(items[index])) this.redraw(index, node);
    }
  }

  redraw(index, node) {
    const focused = focusable(node).indexOf(document.activeElement);
    const fresh = this.row(index);
    node.replaceWith(fresh);
    this.nodes.set(index, fresh);
    if (focused >= 0) focusable(fresh)[focused]?.focus({ preventScroll: true });
  }

  /** Scroll to an item. */
  reveal(index) {
    this.node.scrollTop = Math.max(index * this.height - this.node.clientHeight / 3, 0);
    this.update();
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.update();
    });
  }

  draw(isPrinted) {
    this.isPrinted = isPrinted;
    this.node.classList.toggle("printed", isPrinted);
    this.update();
  }

  update() {
    let first = Math.max(Math.floor(this.node.scrollTop / this.height) - OVERSCAN, 0);
    let last = Math.ceil((this.node.scrollTop + this.node.clientHeight) / this.height) + OVERSCAN;
    if (this.isPrinted) [first, last] = [0, PRINTED_MAX];
    last = Math.min(last, this.items.length);
    for (const [index, node] of this.nodes) {
      if (index >= first && index < last) continue;
      if (node.contains(document.activeElement)) continue;
      node.remove();
      this.nodes.delete(index);
    }
    let after = this.head;
    for (let index = first; index < last; index += 1) {
      let node = this.nodes.get(index);
      if (!node) {
        node = this.row(index);
        this.nodes.set(index, node);
        if (after) after.after(node);
        else this.canvas.prepend(node);
      }
      after = node;
    }
  }

  row(index) {
    const node = this.render(this.items[index], index);
    node.style.setProperty("top", `${index * this.height + this.top}px`);
    node.setAttribute("aria-rowindex", index + (this.head ? 2 : 1));
    return node;
  }
}

/** Have columns of broker ids hold the longest of some lists of them: an id has up to ten digits. */
export function fitIds(list, texts) {
  list.digits = { "--ids": 0, "--id": 0 };
  widenIds(list, texts);
}

/** Have them hold those of more lists, too. */
export function widenIds(list, texts) {
  const widen = (column, some) => {
    list.digits[column] = some.reduce((most, text) => Math.max(most, text.length), list.digits[column]);
    list.node.style.setProperty(column, `${list.digits[column] * DIGIT_EM}em`);
  };
  widen("--ids", texts);
  widen("--id", texts.flatMap((text) => text.split(" ")));
}

function focusable(node) {
  return [...node.querySelectorAll("a,button")];
}

/** Return a list that is a table with a head: columns are [title, class, width], `cells(item)` are
 * those of a row, and `kind(item)` its class. `isAmidst`: it is as high as its rows, up to a bound,
 * since more of the view comes below it; else it fills the view. */
export function longTable({ label, columns, cells, kind = () => "", isAmidst = false }) {
  const row = (kinds, roles, contents) => el("div", { class: `row cells ${kinds}`, role: "row" }, contents.map((content, at) =>
    el("span", { role: at ? roles[1] : roles[0], class: columns[at][1] }, content)));
  const head = row("head", ["columnheader", "columnheader"], columns.map(([title]) => title));
  const list = new VirtualList({ label, height: ROW, head, columns: columns.length,
    render: (item) => row(kind(item), ["rowheader", "cell"], cells(item)) });
  list.node.style.setProperty("--columns", columns.map(([, , width]) => width).join(" "));
  list.node.classList.toggle("amidst", isAmidst);
  return list;
}
