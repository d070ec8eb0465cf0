// A board of cells, such as those of tic-tac-toe and Connect Four, whose free cells are pressed to move.

import { h } from "./dom.js";

/** A cell that nobody has taken. */
const FREE = ".";

/** The rows of cells of a position's board, from above; null for a game without one. */
function rowsOf(position) {
  const board = position?.public?.board;
  if (Array.isArray(board)) return board.map((row) => [...row]);
  if (typeof board !== "string") return null;
  const cells = [...board];
  const width = Math.sqrt(cells.length);
  return Number.isInteger(width) ? cells.map((_, at) => cells.slice(at, at + width)).filter((_, at) => at % width === 0) : null;
}

/**
 * The board of a position; null for a game without one. `say` is called with the legal action of a cell that is pressed: that of
 * the cell's number, or of its column, in which the lowest free cell is taken. Without `say`, nothing can be pressed.
 */
export function createGrid(position, say = null) {
  const rows = rowsOf(position);
  if (rows === null) return null;
  const legal = new Set(say === null ? [] : position.legal ?? []);
  const actionOf = (row, column) => {
    const own = `[${row * rows[0].length + column}]`;
    if (legal.has(own)) return own;
    const falls = `[col ${column}]`;
    return legal.has(falls) && rows[row + 1]?.[column] !== FREE ? falls : null;
  };
  const cell = (mark, row, column) => {
    if (mark !== FREE) return h("span", { class: `cell taken mark-${mark.toLowerCase()}` }, mark);
    const action = actionOf(row, column);
    return action === null ? h("span", { class: "cell" }) : h("button", { type: "button", class: "cell", onclick: () => say(action) }, action);
  };
  const root = h("div", { class: "grid-board", role: "group", "aria-label": "Board" },
    rows.map((marks, row) => marks.map((mark, column) => cell(mark, row, column))));
  root.style.setProperty("--columns", String(rows[0].length));
  return root;
}
