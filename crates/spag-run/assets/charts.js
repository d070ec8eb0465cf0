// Charts, each with its numbers as a table.

import { fill, h, quoted } from "./dom.js";
import { estimate, figure } from "./numbers.js";
import { lineLook, plane, STYLES } from "./plane.js";
import { radar } from "./radar.js";

/** Rows of the table of a chart. */
const ROWS = 12;
/** Numbers beyond it cannot be drawn with others. */
const LARGEST = 1e100;

/** The mean of each value and the `window` − 1 before it. */
export function smoothed(points, window) {
  let sum = 0;
  return points.map(([x, y], at) => {
    sum += y - (at >= window ? points[at - window][1] : 0);
    return [x, sum / Math.min(window, at + 1)];
  });
}

/** A series without the points that cannot be drawn. */
function drawable(series) {
  const kept = ([, y]) => Math.abs(y) <= LARGEST;
  const intervals = (series.intervals ?? []).filter((_, at) => kept(series.points[at]));
  return { ...series, points: series.points.filter(kept), intervals };
}

/**
 * A chart that can be drawn again. `draw` takes what `Chart` of the crate spag-run has: its title, the quantities `across` and `up`,
 * and lists of [x, y] as `series`: `[{ name, points }]`. All else is optional: `look`, if it has no lines but bars or is a radar plot;
 * `names` of the places 0, 1 … across; values that the axis `includes`; the value of a `rule`; over how many values lines are averaged
 * (`smooth`), the values themselves being faint; a `note`; and of each series its `intervals`, and whether it `is_reference`.
 */
export function createChart() {
  const caption = h("figcaption", {});
  const unit = h("p", { class: "soft note" });
  const picture = h("div", {});
  const keys = h("ul", { class: "keys" });
  const said = h("p", { class: "soft note" });
  const table = h("table", { class: "numbers" });
  const numbers = h("details", { class: "soft" }, h("summary", {}, "Numbers"), table);
  const root = h("figure", { class: "chart" }, caption, unit, picture, keys, said, numbers);
  return {
    root,
    draw({ title, note = "", look = "lines", across, up = "", names = [], includes = [], rule = null, smooth = 1, series }) {
      caption.textContent = title;
      [unit.textContent, said.textContent] = [up, note];
      [unit.hidden, said.hidden] = [up === "", note === ""];
      const kept = series.map(drawable).filter(({ points }) => points.length > 0);
      const shown = smooth <= 1 ? kept
        : kept.map((one) => ({ ...one, points: smoothed(one.points, smooth), raw: one.points }));
      const place = (x) => names[x] ?? figure(x);
      const drawing = { title, look, across, names, includes, rule, series: shown, place };
      root.className = `chart ${look}`;
      fill(picture, [look === "radar" ? radar(drawing) : plane(drawing)]);
      fill(keys, shown.map((one, at) => (look === "bars"
        ? h("li", {}, h("span", { class: `key slice-${at % STYLES}` }), quoted(one.name))
        : h("li", {}, h("span", { class: `line-key ${lineLook(one, look, shown)}` }), quoted(one.name),
          look === "lines" ? ` ${figure(one.points.at(-1)[1])}` : ""))));
      numbers.setAttribute("aria-label", `Numbers of ${title}`);
      fill(table, rows(across, shown, place));
    },
  };
}

/** Some of the numbers, with the first and the last. */
function rows(across, series, place) {
  const all = [...new Set(series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(all.length / ROWS));
  const chosen = all.filter((_, at) => at % every === 0 || at === all.length - 1);
  const known = series.map((one) => new Map(one.points.map(([x, y], at) => [x, estimate(y, one.intervals[at])])));
  return [
    h("thead", {}, h("tr", {}, [across, ...series.map((one) => one.name)].map((name) => h("th", { scope: "col" }, quoted(name))))),
    h("tbody", {}, chosen.map((x) => h("tr", {},
      h("th", { scope: "row" }, quoted(place(x))),
      known.map((values) => h("td", {}, values.get(x) ?? ""))))),
  ];
}
