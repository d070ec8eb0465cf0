// A table that is shown again and again.

import { fill, h } from "./dom.js";

/** Whether a cell is a number, perhaps with a unit, and is aligned as one. */
function isNumber(cell) {
  return typeof cell === "string" && /^[-\d.,+−–:<≥ ]+(%|s|min|[KMG]iB|a game)?$/.test(cell);
}

/** A table whose rows become blocks on narrow pages. The first cell of a row is its heading. */
export function createTable(name, headings) {
  const body = h("tbody", {});
  const head = h("tr", {}, headings.map((heading) => h("th", { scope: "col" }, heading)));
  const root = h("table", { class: "rows", "aria-label": name }, h("thead", {}, head), body);
  let before = null;
  return {
    root,
    /** Replaces the headings. */
    rename(names) {
      if (names.join() === headings.join()) return;
      headings = names;
      before = null;
      fill(head, headings.map((heading) => h("th", { scope: "col" }, heading)));
    },
    /** Shows rows if they are others than before: what somebody selects stays selected. `key` says what they are made of. */
    show(key, rows) {
      const now = JSON.stringify(key);
      if (now === before) return;
      before = now;
      const all = rows();
      const classes = headings.map((_, at) => (at > 0 && all.every((cells) => isNumber(cells[at])) ? "number" : null));
      [...head.children].forEach((cell, at) => cell.classList.toggle("number", classes[at] !== null));
      fill(body, all.map(([first, ...cells]) => h("tr", {},
        h("th", { scope: "row" }, first),
        cells.map((cell, at) => h("td", { "data-label": headings[at + 1], class: classes[at + 1] }, cell)))));
    },
  };
}
