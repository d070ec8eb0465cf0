// A radar plot of shares in per cent: an axis for each name, a polygon for each series. All axes have the same scale, from 0.

import { s } from "./dom.js";
import { estimate } from "./numbers.js";
import { lineLook } from "./plane.js";

const SIZE = { width: 480, height: 340 };
const MIDDLE = [SIZE.width / 2, SIZE.height / 2];
/** Length of an axis. */
const RADIUS = 138;
/** Rings, of which the last is the end of the axes. */
const RINGS = 4;
/** Letters of an axis' name, at most. */
const LETTERS = 14;

/** The drawing of a chart, as `createChart` prepares it. */
export function radar({ title, names, series, place }) {
  const largest = Math.max(0, ...series.flatMap((one) => one.points.map(([, y]) => y)));
  const top = Math.min(100, Math.max(20, 20 * Math.ceil(largest / 20)));
  const point = (axis, share) => {
    const angle = (2 * Math.PI * axis) / names.length;
    const distance = (RADIUS * Math.min(top, Math.max(0, share))) / top;
    return [MIDDLE[0] + distance * Math.sin(angle), MIDDLE[1] - distance * Math.cos(angle)];
  };
  const around = (shares) => shares.map(([axis, share]) => point(axis, share).map((one) => one.toFixed(1)).join(",")).join(" ");
  const label = `${title}: ${names.length} axes for ${series.map((one) => one.name).join(", ")}. The numbers follow as a table`;
  const drawing = s("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": label });
  const rings = Array.from({ length: RINGS }, (_, at) => (top * (at + 1)) / RINGS);
  for (const ring of rings) {
    drawing.append(s("polygon", { class: "grid", fill: "none", points: around(names.map((_, axis) => [axis, ring])) }));
  }
  names.forEach((name, axis) => {
    const [x, y] = point(axis, top);
    const [dx, dy] = [(x - MIDDLE[0]) / RADIUS, (y - MIDDLE[1]) / RADIUS];
    const anchor = Math.abs(dx) <= 0.2 ? "middle" : dx > 0 ? "start" : "end";
    const text = name.length > LETTERS ? `${name.slice(0, LETTERS)}…` : name;
    drawing.append(
      s("line", { class: "grid", x1: MIDDLE[0], y1: MIDDLE[1], x2: x.toFixed(1), y2: y.toFixed(1) }),
      s("text", { class: "tick name", x: (x + 10 * dx).toFixed(1), y: (y + 14 * dy + 4).toFixed(1), "text-anchor": anchor }, text));
  });
  series.forEach((one) => {
    const look = lineLook(one, "radar", series);
    drawing.append(s("polygon", { class: `line ${look}`, points: around(one.points) }, s("title", {}, one.name)));
    if (one.is_reference) return;
    one.points.forEach(([axis, share], nth) => {
      const [cx, cy] = point(axis, share).map((value) => value.toFixed(1));
      const told = `${one.name}, ${place(axis)}: ${estimate(share, one.intervals[nth])} %`;
      drawing.append(s("circle", { class: `mark ${look}`, cx, cy, r: 3.2 }, s("title", {}, told)));
    });
  });
  // Over the polygons, which would hide them.
  for (const ring of rings) {
    const [x, y] = point(0, ring);
    drawing.append(s("text", { class: "tick over", x: (x - 5).toFixed(1), y: (y + 4).toFixed(1), "text-anchor": "end" }, String(ring)));
  }
  return drawing;
}
