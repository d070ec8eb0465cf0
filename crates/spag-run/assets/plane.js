// Lines and bars over axes, as SVG.

import { s } from "./dom.js";
import { estimate, figure } from "./numbers.js";

const WIDTH = 390;
const HEIGHT = 220;
const LEFT = 58;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 40;
/** Lines and bars that look different. */
export const STYLES = 5;
/** Points of a line up to which each has a mark, unless they are means; of more, the last one has. */
const MARKED = 40;
/** About how wide a letter below the axis is. */
const LETTER = 6.5;

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

/** The class of a line. In a radar plot the last one looks the same however many there are. */
export function lineLook(one, look, all) {
  if (one.is_reference) return "line-against";
  const own = all.filter((other) => !other.is_reference);
  const at = own.indexOf(one);
  return `line-${(look === "radar" ? own.length - 1 - at : at) % STYLES}`;
}

/** The axis across: its ends, and its ticks with their texts. */
function acrossAxis({ names, look, series }) {
  if (names.length === 0) {
    const [from, right] = bounds(series.flatMap((one) => [...one.points, ...(one.raw ?? [])].map(([x]) => x)));
    const to = right > from ? right : from + 1;
    return { from, to, marks: ticks(from, to, 4).filter((x) => x >= from && x <= to).map((x) => [x, figure(x)]) };
  }
  const margin = look === "bars" ? 0.5 : 0.15;
  const longest = Math.max(...names.map((name) => name.length));
  const every = Math.ceil((LETTER * longest * names.length) / (WIDTH - LEFT - RIGHT));
  const marks = names.map((name, x) => [x, name]).filter(([x]) => x % every === 0);
  return { from: -margin, to: names.length - 1 + margin, marks };
}

/** The drawing of a chart, as `createChart` prepares it. */
export function plane({ title, look, across, names, includes, rule, series, place }) {
  const isBars = look === "bars";
  const x = acrossAxis({ names, look, series });
  const heights = series.flatMap((one) => [...one.points, ...(one.raw ?? [])].map(([, y]) => y));
  const ends = isBars && series.length > 1 ? [] : series.flatMap((one) => (one.intervals ?? []).flat());
  const vertical = ticks(...bounds([...heights, ...ends, ...includes]), 5);
  const y = { from: vertical[0], to: vertical.at(-1) };
  const px = (value) => (LEFT + ((value - x.from) / (x.to - x.from)) * (WIDTH - LEFT - RIGHT)).toFixed(1);
  const py = (value) => (HEIGHT - BOTTOM - ((value - y.from) / (y.to - y.from)) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const spoken = isBars ? ["Its numbers follow as a table"]
    : series.map((one) => `${one.name}: ${figure(one.points.at(-1)[1])} at ${across} ${place(one.points.at(-1)[0])}`);
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${spoken.join("; ")}` });
  for (const value of vertical) {
    drawing.append(
      s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(value), y2: py(value) }),
      s("text", { class: "tick", x: LEFT - 6, y: Number(py(value)) + 4, "text-anchor": "end" }, figure(Number(value.toPrecision(12)))));
  }
  for (const [value, text] of x.marks) {
    drawing.append(s("text", { class: "tick", x: px(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, text));
  }
  drawing.append(s("text", { class: "tick", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, across));
  if (rule !== null) drawing.append(s("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: py(rule), y2: py(rule) }));
  drawing.append(...(isBars ? bars(series, px, py, place) : lines(series, px, py, place)));
  return drawing;
}

/** What a mark or a bar tells. */
function hint(one, at, place) {
  return s("title", {}, `${place(one.points[at][0])}, ${one.name}: ${estimate(one.points[at][1], one.intervals[at])}`);
}

function lines(series, px, py, place) {
  const path = (line) => line.map(([a, b], nth) => `${nth === 0 ? "M" : "L"}${px(a)} ${py(b)}`).join(" ");
  const looks = series.map((one) => lineLook(one, "lines", series));
  const band = (one, at) => {
    const end = (nth) => one.intervals.map((interval, of) => [one.points[of][0], interval[nth]]);
    return s("path", { class: `band ${looks[at]}`, d: `${path([...end(1), ...end(0).reverse()])} Z` });
  };
  const line = (one, at) => [
    ...(one.raw ? [s("path", { class: `line raw ${looks[at]}`, d: path(one.raw) })] : []),
    s("path", { class: `line ${looks[at]}`, d: path(one.points) }),
    ...one.points.map(([a, b], nth) => [a, b, nth])
      .filter(([, , nth]) => (one.points.length <= MARKED && !one.raw) || nth === one.points.length - 1)
      .map(([a, b, nth]) => s("circle", { class: `mark ${looks[at]}`, cx: px(a), cy: py(b), r: 3 }, hint(one, nth, place))),
  ];
  // Bands lie behind all lines.
  return [...series.flatMap((one, at) => (one.intervals.length > 0 ? [band(one, at)] : [])), ...series.flatMap(line)];
}

/** Bars that stand on each other; of a single series with its intervals. */
function bars(series, px, py, place) {
  const below = new Map();
  return series.flatMap((one, at) => one.points.flatMap(([x, y], nth) => {
    const from = below.get(x) ?? 0;
    below.set(x, from + y);
    const [left, right, top, bottom] = [px(x - 0.38), px(x + 0.38), py(from + y), py(from)].map(Number);
    const text = y.toFixed(0);
    const fits = bottom - top >= 15 && right - left >= 8 * text.length;
    const interval = series.length === 1 ? one.intervals[nth] : undefined;
    return [
      s("rect", { class: `slice slice-${at % STYLES}`, x: left, y: top, width: right - left, height: bottom - top }, hint(one, nth, place)),
      ...(fits ? [s("text", { class: "inside", x: px(x), y: (interval ? bottom - 6 : (top + bottom) / 2 + 4), "text-anchor": "middle" }, text)] : []),
      ...(interval ? [s("line", { class: "whisker", x1: px(x), x2: px(x), y1: py(interval[0]), y2: py(interval[1]) })] : []),
    ];
  }));
}
