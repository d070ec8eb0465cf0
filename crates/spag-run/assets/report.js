// Results as the crate spag-run describes them: a `Document`.

import { createChart } from "./charts.js";
import { h, quoted } from "./dom.js";
import { createTable } from "./table.js";
import { saidText, utterance } from "./talk.js";

function chart(described) {
  const { root, draw } = createChart();
  draw(described);
  return root;
}

function table({ title, columns, rows }) {
  const { root, show } = createTable(title, columns);
  show(rows, () => rows);
  return h("figure", { class: "table" },
    h("figcaption", { class: "soft" }, title),
    h("div", { class: "card scroll", tabindex: "0", role: "group", "aria-label": title }, root));
}

function conversation({ players, said, ending }) {
  return h("section", { class: "card" },
    h("h4", {}, quoted(players)),
    h("ol", { class: "talk" }, said.map(({ seat, player, text, note }) =>
      utterance(seat, player, false, [saidText(text), note && h("small", { class: "untrue" }, note)]))),
    h("p", { class: "soft note" }, ending));
}

/** How each part of a section is shown, by its kind. */
const PARTS = {
  heading: (text) => h("h3", { class: "of-game" }, quoted(text)),
  text: (text) => h("p", {}, quoted(text)),
  tiles: (tiles) => h("ul", { class: "tiles" }, tiles.map(({ number, meaning }) =>
    h("li", { class: "card" }, h("b", {}, number), h("span", {}, meaning)))),
  charts: (charts) => h("div", { class: "charts" }, charts.map(chart)),
  table,
  folded: (one) => h("details", {}, h("summary", {}, one.title), table(one)),
  games: ({ title, games }) => h("article", { class: "pair" },
    title && h("h3", {}, quoted(title)), h("div", {}, games.map(conversation))),
};

/** The elements of a document, below its title. */
export function documentParts({ about, notes, sections }) {
  return [
    h("p", { class: "soft" }, quoted(about)),
    notes.map((note) => h("p", { class: "problem", role: "note" }, quoted(note))),
    sections.map(({ heading, parts }) => h("section", {},
      heading && h("h2", {}, heading),
      parts.flatMap((part) => Object.entries(part).map(([kind, value]) => PARTS[kind](value))))),
  ];
}
