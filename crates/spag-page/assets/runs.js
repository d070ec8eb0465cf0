// The games of a run folder: filtered lists, single games, and the report.

import { get, RequestError } from "./api.js";
import { createBoard, shareButtons } from "./board.js";
import { fill, h, problem, quoted, select } from "./dom.js";
import { newGame } from "./game.js";
import { documentParts } from "./report.js";
import { createTable } from "./table.js";
import { seatClass } from "./talk.js";

/** Whom games can be won by. */
function winners(seats) {
  const named = seats.map((seat) => ({ value: seat, title: seat.includes(" ") ? seat : `the ${seat}` }));
  return [{ value: "", title: "anybody" }, ...named, { value: "none", title: "nobody" }];
}

/** The class of the ending at a place in the list of a game's endings, which is its colour. */
function endingClass(at) {
  return `slice-${at % 5}`;
}

/** A recorded game as the server tells it. */
export function recorded(found, file) {
  const names = seats(file, found.players);
  const players = Object.fromEntries(found.seats.map((seat, at) => [seat, names[at]]));
  const game = newGame({ target_word: found.target_word ?? "", max_turns: found.max_turns, seed: 0 }, players);
  game.history = found.history;
  game.verdict = found.verdict;
  if (found.position !== null) {
    game.kind = { title: found.title, seats: found.seats };
    game.position = found.position;
  }
  return game;
}

/** The address of a view of the run. */
function address(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return `#runs?${new URLSearchParams(given)}`;
}

/** Shows the view in `main` until `signal` aborts. `query` is what follows `#runs?`; `share` makes the buttons of a game. */
export async function runs(main, query, signal, share = (game) => shareButtons(game, true)) {
  const asked = Object.fromEntries(new URLSearchParams(query));
  // A filter that was just used keeps the focus.
  const used = document.activeElement?.getAttribute("name");
  const body = h("div", { "aria-busy": "true" }, h("p", { class: "soft" }, "Loading …"));
  const heading = h("h2", { tabindex: "-1" }, "Games of a run");
  fill(main, [heading, body]);
  const load = async () => {
    try {
      const run = await get("page/run", {}, signal);
      const isReport = asked.report !== undefined;
      fill(heading, [isReport ? "Report of " : "Games of ", quoted(run.name)]);
      if (isReport) await report(body, signal);
      else if (asked.row) await single(body, asked, signal, share);
      else await list(body, run, asked, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestError)) throw error;
      fill(body, [problem(error.message, load), h("a", { href: "#runs" }, "All games")]);
    }
    body.setAttribute("aria-busy", "false");
    if (used) body.querySelector(`[name="${CSS.escape(used)}"]`)?.focus();
  };
  await load();
}

async function report(body, signal) {
  const found = await get("page/run/report", {}, signal);
  fill(body, [
    h("p", {}, h("a", { href: "#runs" }, "Back to the games")),
    h("div", { class: "report" }, documentParts(found)),
  ]);
}

async function single(body, asked, signal, share) {
  const found = await get("page/run/game", { file: asked.file, row: asked.row }, signal);
  const game = recorded(found, asked.file);
  const board = createBoard("A game of the run");
  board.show(game);
  // Seeds of records are larger than numbers of JavaScript, so that games that they deal have no link.
  fill(board.actions, [game.kind ? null : share(game)]);
  const back = address({ ...asked, row: undefined });
  fill(body, [
    h("p", {}, h("a", { href: back }, "Back to the list"), h("span", { class: "soft" }, " · ", place(asked.file, found))),
    board.root,
    found.failure ? h("p", { class: "problem" }, "This game was not played to its end: ", quoted(found.failure)) : null,
  ]);
}

function place(file, found) {
  return found.game === null ? `${file}, row ${found.row}` : `${file}, row ${found.row}, game ${found.game}`;
}

/** Who played: from the name of an evaluation's file, or else what the game says. */
export function seats(file, players) {
  const pair = /^eval\/(?:.+\/)?([^/]+)-vs-([^/]+)\.jsonl$/.exec(file);
  if (pair) return [pair[1].toUpperCase(), pair[2].toUpperCase()];
  const who = players ?? "a model";
  return [who, who];
}

async function list(body, run, asked, signal) {
  if (run.files.length === 0) {
    fill(body, [h("p", {}, "This run has no games yet.")]);
    return;
  }
  const file = asked.file ?? run.files[0]?.file ?? "";
  const { ending = "", winner = "", word = "", page = "" } = asked;
  const found = await get("page/run/games", { file, ending, winner, word, page }, signal);
  const shown = { file, ending, winner, word };
  const go = (change) => { location.hash = address({ ...shown, ...change }); };
  const groups = new Map();
  for (const one of run.files) {
    groups.set(one.group, [...(groups.get(one.group) ?? []), { value: one.file, title: one.title }]);
  }
  const files = [...groups].map(([group, options]) => ({ group, options }));
  const endings = [{ value: "", title: "any" },
    ...found.endings.map((one) => ({ value: one.ending, title: `${one.title} (${one.games})` })),
    ...(found.failed > 0 ? [{ value: "failed", title: `failed (${found.failed})` }] : [])];
  // Of other games, the seed deals everything.
  const hasWords = found.item === "target word";
  const changed = (name) => ({ onchange: (event) => go({ [name]: event.target.value }) });
  const filters = h("form", {
    class: "card filters",
    onsubmit: (event) => {
      event.preventDefault();
      go({ word: new FormData(filters).get("word").trim() });
    },
  },
  select("Games", { name: "file", ...changed("file") }, files, file),
  select("Ending", { name: "ending", ...changed("ending") }, endings, ending),
  select("Won by", { name: "winner", ...changed("winner") }, winners(found.seats), winner),
  hasWords && h("label", { class: "field" }, h("span", {}, "Word"), h("input", { name: "word", type: "search", value: word, dir: "auto" })),
  hasWords && h("button", { type: "submit" }, "Filter"));
  const heading = hasWords ? "Word" : "Game";
  const title = (game) => (hasWords ? game.target_word || "(empty)" : `Game ${game.game ?? game.row}`);
  const places = new Map(found.endings.map((one) => [one.ending, one]));
  // An ending that has no winner of its own does not say who won.
  const ended = (game) => {
    const known = places.get(game.ending);
    if (!known) return "failed";
    return known.winner === null && game.winner !== null ? `${known.title}, ${game.winner} wins` : known.title;
  };
  const games = createTable("Games", [heading, "Ending", "Utterances", "Last utterance"]);
  games.root.classList.add("games");
  games.show(found.games, () => found.games.map((game) => [
    h("a", { href: address({ ...shown, page: found.page > 1 ? found.page : "", row: game.row }), dir: "auto" }, title(game)),
    [h("span", { class: `dot ${seatClass(game.winner)}`, "aria-hidden": "true" }), ended(game)],
    String(game.length),
    h("span", { class: "last", dir: "auto" }, game.failure ?? game.last),
  ]));
  fill(body, [
    run.report ? h("p", {}, h("a", { href: "#runs?report" }, "The report of this run")) : null,
    filters,
    unreadable(found),
    bar(found, shown),
    h("p", { class: "soft", role: "status" }, count(found)),
    found.games.length === 0 ? h("p", {}, "No game meets these conditions.") : games.root,
    pages(found, shown),
  ]);
}

function count(found) {
  const games = (number) => `${number.toLocaleString("en")} ${number === 1 ? "game" : "games"}`;
  if (found.matching === found.total) return games(found.total);
  return `${found.matching.toLocaleString("en")} of ${games(found.total)}`;
}

function unreadable(found) {
  const parts = [];
  if (found.unreadable > 0) {
    const first = found.unreadable_rows.map(({ row, reason }) => h("li", {}, `Row ${row}: `, quoted(reason)));
    parts.push(h("details", { class: "problem" },
      h("summary", {}, `${found.unreadable} ${found.unreadable === 1 ? "row of this file is no game" : "rows of this file are no games"}`),
      h("ul", {}, first)));
  }
  if (found.cut_after !== null) {
    parts.push(h("p", { class: "problem" }, `Only the first ${found.cut_after.toLocaleString("en")} games of this file are listed.`));
  }
  return parts;
}

/** How the games ended, as a bar of links. */
function bar(found, shown) {
  if (found.total === 0) return null;
  const ended = found.endings.map((one, at) => ({ ...one, look: endingClass(at) })).filter((one) => one.games > 0);
  const parts = ended.map((one) => {
    const share = Math.round((100 * one.games) / found.total);
    const name = `${one.title}: ${one.games} games, ${share} %`;
    const part = h("a", { class: `part ${one.look}`, href: address({ ...shown, ending: one.ending }), title: name, "aria-label": name },
      share >= 8 ? `${share} %` : "");
    part.style.flexGrow = String(one.games);
    return part;
  });
  const keys = ended.map((one) => h("li", {}, h("span", { class: `key ${one.look}` }), one.title));
  return h("figure", { class: "endings" }, h("div", { class: "bar" }, parts), h("ul", { class: "keys" }, keys));
}

function pages(found, shown) {
  if (found.pages <= 1) return null;
  const link = (page, name) => page >= 1 && page <= found.pages
    ? h("a", { class: "button", href: address({ ...shown, page }) }, name)
    : h("span", { class: "button off" }, name);
  return h("nav", { class: "pages", "aria-label": "Pages" },
    link(found.page - 1, "Previous"),
    h("span", { class: "soft" }, `Page ${found.page} of ${found.pages}`),
    link(found.page + 1, "Next"));
}
