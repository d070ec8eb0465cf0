// Line charts as SVG, each with its numbers as a table.

import { fill, h, quoted } from "./dom.js";
import { figure } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 390;
const HEIGHT = 220;
const LEFT = 58;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 40;
/** Lines that look different. */
const STYLES = 4;
/** Rows of the table of a chart. */
const ROWS = 12;
/** Numbers beyond it cannot be drawn with others. */
const LARGEST = 1e100;

function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Round ticks about `wanted` in number, from below the least value to above the greatest. */
export function ticks(from, to, wanted) {
  const size = Math.max(Math.abs(from), Math.abs(to));
  // Values that are equal, but for their last bits, lie in the middle of some.
  const span = to - from > 1e-9 * size ? to - from : size / 5 || 1;
  const raw = span / wanted;
  const magnitude = 10 ** Math.floor(Math.log10(raw));
  const step = magnitude * [1, 2, 5, 10].find((factor) => factor * magnitude >= raw * 0.999_999);
  const first = Math.floor(from / step);
  const last = Math.max(first + 1, Math.ceil((from + span) / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
}

function bounds(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  return least <= most ? [least, most] : [0, 1];
}

/** The mean of each value and the `window` − 1 before it. */
export function smoothed(points, window) {
  let sum = 0;
  return points.map(([x, y], at) => {
    sum += y - (at >= window ? points[at - window][1] : 0);
    return [x, sum / Math.min(window, at + 1)];
  });
}

/**
 * A chart that can be drawn again. `draw({ title, across, series, range, smooth })` takes lists of [x, y] as `series`:
 * `[{ name, points }]`, optionally the range of y, and over how many values each is averaged; the values themselves are then faint.
 */
export function createChart() {
  const caption = h("figcaption", {});
  const picture = h("div", {});
  const keys = h("ul", { class: "keys" });
  const table = h("table", { class: "numbers" });
  const numbers = h("details", { class: "soft" }, h("summary", {}, "Numbers"), table);
  const root = h("figure", { class: "chart" }, caption, picture, keys, numbers);
  return {
    root,
    draw({ title, across, series, range, smooth = 1 }) {
      caption.textContent = title;
      const drawn = series.map(({ name, points }) => ({ name, points: points.filter(([, y]) => Math.abs(y) <= LARGEST) }));
      const kept = drawn.filter(({ points }) => points.length > 0);
      const shown = smooth === 1 ? kept
        : kept.map(({ name, points }) => ({ name, points: smoothed(points, smooth), raw: points }));
      fill(picture, [svg(title, across, shown, range)]);
      const last = ({ points }) => figure(points.at(-1)[1]);
      fill(keys, shown.map((one, at) => h("li", {},
        h("span", { class: `line-key line-${at % STYLES}` }), quoted(one.name), ` ${last(one)}`)));
      numbers.setAttribute("aria-label", `Numbers of ${title}`);
      fill(table, rows(across, shown));
    },
  };
}

function svg(title, across, series, range) {
  const points = series.flatMap((one) => [...one.points, ...(one.raw ?? [])]);
  const [left, right] = bounds(points.map(([x]) => x));
  const x = { from: left, to: right > left ? right : left + 1 };
  const vertical = ticks(...(range ?? bounds(points.map(([, y]) => y))), 4);
  const y = { from: vertical[0], to: vertical.at(-1) };
  const px = (value) => (LEFT + ((value - x.from) / (x.to - x.from)) * (WIDTH - LEFT - RIGHT)).toFixed(1);
  const py = (value) => (HEIGHT - BOTTOM - ((value - y.from) / (y.to - y.from)) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const spoken = series.map((one) => `${one.name}: ${figure(one.points.at(-1)[1])} at ${across} ${figure(one.points.at(-1)[0])}`);
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${spoken.join("; ")}` });
  for (const value of vertical) {
    drawing.append(
      s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(value), y2: py(value) }),
      s("text", { class: "tick", x: LEFT - 6, y: Number(py(value)) + 4, "text-anchor": "end" }, figure(Number(value.toPrecision(12)))));
  }
  for (const value of ticks(x.from, x.to, 4).filter((one) => one >= x.from && one <= x.to)) {
    drawing.append(s("text", { class: "tick", x: px(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, figure(value)));
  }
  drawing.append(s("text", { class: "tick", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, across));
  const path = (line) => line.map(([a, b], nth) => `${nth === 0 ? "M" : "L"}${px(a)} ${py(b)}`).join(" ");
  series.forEach((one, at) => {
    const [a, b] = one.points.at(-1);
    if (one.raw) drawing.append(s("path", { class: `line raw line-${at % STYLES}`, d: path(one.raw) }));
    drawing.append(
      s("path", { class: `line line-${at % STYLES}`, d: path(one.points) }),
      s("circle", { class: `end line-${at % STYLES}`, cx: px(a), cy: py(b), r: 3 }, s("title", {}, `${one.name}: ${figure(b)}`)));
  });
  return drawing;
}

/** Some of the numbers, with the first and the last. */
function rows(across, series) {
  const all = [...new Set(series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(all.length / ROWS));
  const chosen = all.filter((_, at) => at % every === 0 || at === all.length - 1);
  const known = series.map((one) => new Map(one.points));
  return [
    h("thead", {}, h("tr", {}, [across, ...series.map((one) => one.name)].map((name) => h("th", { scope: "col" }, quoted(name))))),
    h("tbody", {}, chosen.map((x) => h("tr", {},
      h("th", { scope: "row" }, figure(x)),
      known.map((values) => h("td", {}, values.has(x) ? figure(values.get(x)) : ""))))),
  ];
}
