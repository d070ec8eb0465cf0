// Win rates of runs.

import { createChart } from "./charts.js";
import { fill, h, quoted } from "./dom.js";
import { count, percent } from "./numbers.js";
import { createTable } from "./table.js";
import { capitalised } from "./talk.js";

/** A name, with the run that it is of if there are several. */
export function labelled(name, label) {
  return label === null ? name : `${name} · ${label}`;
}

/** The files of games of the first run, and all of them, those of one name beside each other. */
function setsOf(runs) {
  const isOfGames = (set) => set.games + set.failed + set.unreadable > 0;
  const byRun = runs.map(({ label, state }) => state.sets.filter(isOfGames).map((set) => ({ ...set, label })));
  const all = byRun.flat();
  const files = [...new Set(all.map((set) => set.file))];
  return { sets: byRun[0], all: files.flatMap((file) => all.filter((set) => set.file === file)) };
}

/** Win rates: of all files of games as a table, of the one that changed last as a chart. */
export function createWinRates() {
  const table = createTable("Win rates", ["Games", "Ended", "Attacker won", "Defender won", "How they ended", "Utterances"]);
  const chart = createChart();
  const note = h("p", { class: "soft" });
  const root = h("section", { class: "section", hidden: true }, h("h3", {}, "Win rates"), note, table.root, h("div", { class: "charts" }, chart.root));
  let before = new Map();
  let current = null;
  return {
    root,
    /** Shows the files of the first run, with those of the others beside them. `runs` is `[{ label, state }]`. */
    show(runs) {
      const { sets, all } = setsOf(runs);
      root.hidden = all.length === 0;
      if (root.hidden) return;
      const seats = new Set(all.map((set) => set.seats.join()));
      const [first, second] = seats.size === 1 ? all[0].seats.map(capitalised) : ["First player", "Second player"];
      table.rename(["Games", "Ended", `${first} won`, `${second} won`, "How they ended", "Utterances"]);
      const broken = first === "Attacker" ? "a broken rule is a win of the defender" : "who breaks a rule loses";
      note.textContent = `Shares of all games; ${broken}.`;
      table.show(all.map(({ course, ...set }) => set), () => all.map(gamesRow));
      const changed = sets.filter((set) => before.get(set.file) !== set.games);
      before = new Map(sets.map((set) => [set.file, set.games]));
      // Of several at once, as at the first look, that of the stage in progress or the last one.
      const now = runs[0].state.ranks[0];
      const next = changed.find((set) => now?.part !== "" && set.folder.split("/")[0] === now?.stage) ?? changed.at(-1);
      if (!next && runs.length === 1 && current !== null) return;
      current = next?.file ?? current ?? (sets.length > 0 ? sets : all).at(-1).file;
      const drawn = all.filter((one) => one.file === current);
      const share = (set, of) => set.course.map((point) => [point[0], (100 * point[of]) / point[0]]);
      chart.draw({
        title: `${drawn[0].title}: % of games won`,
        across: "games",
        includes: [0, 100],
        series: drawn.flatMap((set) => set.seats.map((seat, at) => ({ name: labelled(seat, set.label), points: share(set, at + 1) }))),
      });
    },
  };
}

function gamesRow(set) {
  const endings = set.endings.filter((one) => one.games > 0).map((one) => `${one.title} ${count(one.games)}`);
  if (set.failed > 0) endings.push(`not played to the end ${count(set.failed)}`);
  if (set.unreadable > 0) endings.push(`unreadable rows ${count(set.unreadable)}`);
  return [
    quoted(labelled(set.title, set.label)),
    count(set.games),
    ...set.wins.map((wins) => percent(wins, set.games)),
    endings.join(", "),
    set.games > 0 ? `${(set.utterances / set.games).toFixed(1)} a game` : "–",
  ];
}
