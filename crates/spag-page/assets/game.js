// A game: its state, its links and files, and how it goes on. The server judges; nothing here does.

import { post, RequestError, stream } from "./api.js";
import { store } from "./dom.js";

/** A new game. `players` names the model of each seat; null is a person. */
export function newGame({ target_word, max_turns, seed, temperature }, players) {
  return { target_word, max_turns, seed, temperature, players, history: [], verdict: null, judged: 0, gaveUp: false, counted: false };
}

/**
 * A new game of another kind: `kind` is `{ name, title, seats, options }`, as the server lists it. What its players see is
 * its `position`, which the server tells.
 */
export function newGameOf(kind, { seed, temperature }, players) {
  return { ...newGame({ target_word: "", max_turns: 0, seed, temperature }, players), kind, position: null, judged: -1 };
}

/** The seats, the first one first. */
export function seatsOf(game) {
  return game.kind?.seats ?? ["attacker", "defender"];
}

/** The game that this tab keeps, or null. */
export function keptGame() {
  const game = store.get("game");
  const isFine = typeof game?.target_word === "string" && Array.isArray(game.history) && typeof game.players === "object"
    && "verdict" in game;
  return isFine ? game : null;
}

/** The seat of the next utterance; null if it is not known. */
export function nextRole(game) {
  if (game.kind) return game.position?.to_move ?? null;
  return game.history.length % 2 === 0 ? "attacker" : "defender";
}

/** The seat of the person who plays; null if models play both, or persons. */
export function ownSeat(game) {
  const persons = seatsOf(game).filter((seat) => game.players[seat] === null);
  return persons.length === 1 ? persons[0] : null;
}

/** Whether the game has ended. */
export function isOver(game) {
  return game.verdict !== null || game.gaveUp;
}

/** Whether the word may be shown: the defender sees it at the end only. */
export function wordIsOpen(game) {
  return isOver(game) || ownSeat(game) !== "defender";
}

/** What the server is sent. */
function body(game) {
  // Without the reasoning, but with whether there was nothing else.
  const history = game.history.map(({ role, content, reasoning_end }) => ({ role, content, reasoning_end }));
  const { target_word, max_turns, seed, temperature, players, kind } = game;
  const rest = { seed, temperature, players, history, gave_up: game.gaveUp || undefined };
  if (kind) return { game_name: kind.name, game_options: kind.options, ...rest };
  return { target_word, max_turns, ...rest };
}

/** Takes over what the server tells of a game. */
function learn(game, { verdict, position, thoughts }) {
  game.verdict = verdict;
  game.position = position ?? null;
  for (const { utterance, reasoning, reasoning_end } of thoughts ?? []) Object.assign(game.history[utterance], { reasoning, reasoning_end });
}

/** Judges the utterances that have not been judged. */
export async function judge(game, signal) {
  if (game.judged === game.history.length || game.verdict) return;
  const judged = game.history.length;
  learn(game, await post("/page/judge", body(game), signal));
  game.judged = judged;
}

/** Asks what the models of a game thought in which a person gave up. Without an answer it is not known. */
export async function askThoughts(game, signal) {
  try {
    learn(game, await post("/page/judge", body(game), signal));
  } catch (error) {
    if (error.name !== "AbortError" && !(error instanceof RequestError)) throw error;
  }
}

/**
 * Goes on until a person has to speak or the game is over. `ui` shows it: `stream(role)` returns an utterance in
 * progress, and `changed()` is called after every change.
 *
 * If this fails, the game is as it was before the failed request, and may go on later.
 */
export async function advance(game, ui, signal) {
  while (!isOver(game)) {
    await judge(game, signal);
    ui.changed();
    if (isOver(game)) return;
    const role = nextRole(game);
    if (game.players[role] === null) return;
    const shown = ui.stream(role);
    try {
      const last = await stream("/page/turn", body(game), (piece) => shown.append(piece), signal);
      game.history.push({ role, content: last.utterance, reasoning_end: last.reasoning_end });
      game.judged = game.history.length;
      learn(game, last);
      game.truncated = last.truncated_tokens > 0;
    } finally {
      shown.remove();
    }
    ui.said(game.history.at(-1));
    ui.changed();
  }
}

function toBase64Url(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64Url(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

/** The address of a game. It has the word, but not in a form that one reads by accident. */
export function linkOf(game) {
  const address = (small) => `${location.origin}${location.pathname}#game=${toBase64Url(JSON.stringify(small))}`;
  if (game.kind) {
    const { name: n, title: m, seats: z, options: o } = game.kind;
    const h = game.history.map(({ role, content, reasoning_end }) =>
      [z.indexOf(role), content, ...(reasoning_end === "unfinished" ? [1] : [])]);
    return address({ n, m, z, o, s: game.seed, p: z.map((seat) => game.players[seat]), g: game.gaveUp, h });
  }
  const { target_word: w, max_turns: t, seed: s, players: { attacker: a, defender: d } } = game;
  const small = { w, t, s, a, d, g: game.gaveUp, h: game.history.map(({ content }) => content) };
  return address(small);
}

/** A game that somebody shared. */
function shared(game, gaveUp) {
  game.gaveUp = gaveUp === true;
  game.counted = true;
  // The server checks it once, also without utterances.
  game.judged = -1;
  // Whoever opens a link did not have to play.
  game.shared = true;
  return game;
}

/** The game of another kind in a link. */
function gameOfKind({ n, m, z, o, s, p, g, h }) {
  const isPair = (pair, isFine) => Array.isArray(pair) && pair.length === 2 && pair.every(isFine);
  const isText = (text) => typeof text === "string";
  const isSaid = (said) => Array.isArray(said) && (said[0] === 0 || said[0] === 1) && isText(said[1]);
  const isFine = isText(n) && isText(m) && isPair(z, isText) && typeof o === "object" && Number.isSafeInteger(s) && s >= 0
    && isPair(p, (name) => name === null || isText(name)) && Array.isArray(h) && h.every(isSaid);
  if (!isFine) throw new Error("not a game");
  const players = Object.fromEntries(z.map((seat, at) => [seat, p[at]]));
  const game = newGameOf({ name: n, title: m, seats: z, options: o }, { seed: s }, players);
  game.history = h.map(([seat, content, isUnfinished]) => ({ role: z[seat], content, ...(isUnfinished && { reasoning_end: "unfinished" }) }));
  return shared(game, g);
}

/** The game of an address. Throws if there is none. */
export function gameOfLink(text) {
  const small = JSON.parse(fromBase64Url(text));
  if (small.n !== undefined) return gameOfKind(small);
  const { w, t, s, a, d, g, h } = small;
  const isName = (name) => name === null || typeof name === "string";
  const isFine = typeof w === "string" && Number.isSafeInteger(t) && t > 0 && Number.isSafeInteger(s) && s >= 0
    && isName(a) && isName(d) && Array.isArray(h) && h.every((content) => typeof content === "string");
  if (!isFine) throw new Error("not a game");
  const game = newGame({ target_word: w, max_turns: t, seed: s }, { attacker: a, defender: d });
  game.history = h.map((content, at) => ({ role: at % 2 === 0 ? "attacker" : "defender", content }));
  return shared(game, g);
}

/** The game as an episode, in the format of the project's files. */
export function episodeOf(game) {
  const { target_word, max_turns, seed, kind } = game;
  const history = game.history.map(({ role, content, reasoning, reasoning_end }) => ({ role, content, reasoning, reasoning_end }));
  const players = seatsOf(game).map((seat) => game.players[seat] ?? "person").join("-vs-");
  const named = kind ? { game_name: kind.name } : {};
  if (kind && Object.keys(kind.options).length > 0) named.game_options = kind.options;
  return { history, target_word, max_turns, seed, ...named, players };
}

/** The games of this sitting. */
export const score = {
  read() {
    const { won = 0, lost = 0, tied = 0 } = store.get("score") ?? {};
    return { won, lost, tied };
  },
  /** Counts a game that has ended, once. */
  count(game) {
    const seat = ownSeat(game);
    if (!isOver(game) || game.counted || seat === null) return;
    const result = this.read();
    if (game.gaveUp || (game.verdict.winner !== null && game.verdict.winner !== seat)) result.lost += 1;
    else if (game.verdict.winner === seat) result.won += 1;
    else result.tied += 1;
    game.counted = true;
    store.set("score", result);
  },
};
