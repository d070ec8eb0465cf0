// Playing against a model.

import { get, RequestError } from "./api.js";
import { createBoard, entitle, shareButtons, turnLabel } from "./board.js";
import { confirmed } from "./confirm.js";
import { announce, choices, fill, h, problem, quoted, select, store } from "./dom.js";
import { advance, askThoughts, isOver, keptGame, newGame, newGameOf, nextRole, ownSeat, score, seatsOf, wordIsOpen } from "./game.js";
import { goal } from "./goal.js";
import { dealt, optionFields, optionsOf } from "./options.js";
import { createGrid } from "./grid.js";
import { rules } from "./rules.js";
import { capitalised } from "./talk.js";

const SEATS = [
  {
    value: "attacker",
    title: "Attacker",
    text: "You get a word. Make the model say it without saying it yourself.",
  },
  {
    value: "defender",
    title: "Defender",
    text: "The model has a word. Find out which, without saying it by accident.",
  },
];

/** Legal actions that have a button each. */
const MOST_BUTTONS = 60;

/** The kind of game of this name; null is Adversarial Taboo. The first one if there is none. */
export function kindOf(settings, name) {
  const found = settings.games.find((game) => game.name === name) ?? settings.games[0];
  return found.name === "taboo" ? null : found;
}

/** A list to choose a game; nothing if there is only one. */
export function gameChoice(settings, kind, changed) {
  if (settings.games.length < 2) return null;
  const games = settings.games.map(({ name, title }) => ({ value: name, title }));
  return select("Game", { name: "game", onchange: (event) => changed(event.target.value) }, games, kind?.name ?? "taboo");
}

/** Who can play, to choose from: the models of the server, and those behind endpoints. */
export function playerChoices(settings) {
  return settings.models.map(({ name, endpoint }) => ({ value: name, title: endpoint === undefined ? name : `${name} (endpoint)` }));
}

/** The seats to choose from. */
function seatChoices(kind) {
  if (kind === null) return SEATS;
  const texts = ["Usually moves first.", "Usually moves second."];
  return kind.seats.map((seat, at) => ({ value: seat, title: capitalised(seat), text: texts[at] }));
}

/** The text of a person: complete characters, without blanks around it. */
function cleaned(text) {
  const whole = typeof text.toWellFormed === "function" ? text.toWellFormed() : text.replace(/\p{Cs}/gu, "\ufffd");
  return whole.trim();
}

/** What the address names: the setup, or the game of this tab. */
const SETUP = "play";
const TABLE = "table";

/** Names what is shown in the address, so that the link to the setup leads away from a game, and a reload stays at it. */
function name(view) {
  history.replaceState(null, "", `#${view}`);
}

/** Shows the view in `main` until `signal` aborts: the setup if the address names it, else the game of this tab if it has one. */
export function play(main, settings, view, signal) {
  const game = keptGame();
  if (game && view !== SETUP) table(main, settings, game, signal);
  else setUp(main, settings, signal);
}

/** The game of this tab that has not ended; null if there is none. */
function openGame() {
  const game = keptGame();
  return game && !isOver(game) ? game : null;
}

/** Whether a game may be left: an open one in which somebody has spoken is not dropped unasked. */
async function mayLeave(game) {
  return isOver(game) || game.history.length === 0 || await confirmed("Leave this game? It will not be counted.", "Leave it", "Go on playing");
}

/** The way back to a game that has not ended. */
function goOn(main, settings, game, signal) {
  const opponents = seatsOf(game).map((seat) => game.players[seat]).filter((player) => player !== null);
  return h("div", { class: "card row" },
    h("span", {}, "Your game against ", h("b", {}, quoted(opponents[0])), " has not ended."),
    h("button", { type: "button", onclick: () => table(main, settings, game, signal) }, "Go on playing"));
}

function tally() {
  const { won, lost, tied } = score.read();
  if (won + lost + tied === 0) return null;
  return h("p", { class: "score soft" }, "This sitting: ", h("b", {}, `${won} won`), ` · ${lost} lost · ${tied} tied`);
}

function setUp(main, settings, signal) {
  name(SETUP);
  const open = openGame();
  const last = { model: settings.models[0].name, ...store.get("choice") };
  const kind = kindOf(settings, last.game);
  entitle(kind);
  const seats = seatChoices(kind);
  const seat = seats.some(({ value }) => value === last.seat) ? last.seat : seats[0].value;
  const names = playerChoices(settings);
  const heading = h("h2", { tabindex: "-1" }, "Play against the model");
  const trouble = h("div", {});
  const form = h("form", {
    class: "card setup",
    onsubmit: async (event) => {
      event.preventDefault();
      if (open && !await mayLeave(open)) return;
      const fields = new FormData(form);
      const choice = { game: kind?.name ?? "taboo", seat: fields.get("seat"), model: fields.get("model") ?? settings.models[0].name,
        options: optionsOf(fields) };
      store.set("choice", choice);
      start(main, settings, choice, trouble, signal);
    },
  },
  gameChoice(settings, kind, (game) => {
    store.set("choice", { ...last, game });
    setUp(main, settings, signal);
    main.querySelector("select[name=game]").focus();
  }),
  choices("Your seat", "seat", seats, seat),
  names.length > 1 ? select("Model", { name: "model" }, names, last.model)
    : h("p", { class: "soft" }, "You play against ", h("b", {}, h("bdi", {}, names[0].title)), "."),
  optionFields(settings, kind, last.options),
  h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Start a game")),
  trouble);
  fill(main, [heading, tally(), open && goOn(main, settings, open, signal), form, rules(settings, kind)]);
}

async function start(main, settings, choice, trouble, signal) {
  try {
    const word = dealt(await get("/page/word", {}, signal), choice.options ?? {});
    const isKnown = settings.models.some(({ name }) => name === choice.model);
    const model = isKnown ? choice.model : settings.models[0].name;
    const kind = kindOf(settings, choice.game);
    const seats = kind?.seats ?? SEATS.map(({ value }) => value);
    const players = Object.fromEntries(seats.map((seat) => [seat, seat === choice.seat ? null : model]));
    const game = kind === null ? newGame(word, players) : newGameOf(kind, word, players);
    store.set("game", game);
    table(main, settings, game, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof RequestError)) throw error;
    fill(trouble, [problem(error.message, () => start(main, settings, choice, trouble, signal))]);
  }
}

function table(main, settings, game, signal) {
  name(TABLE);
  const board = createBoard("Your game");
  entitle(game.kind);
  const another = game.kind ? "New game" : "New word";
  // The announced end of the game before names its word.
  announce("");
  const ended = new AbortController();
  signal.addEventListener("abort", () => ended.abort());
  const tallied = h("div", {});
  const aim = h("div", {});
  fill(main, [tallied, aim, board.root, rules(settings, game.kind ?? null)]);

  const leave = () => {
    ended.abort();
    store.remove("game");
    setUp(main, settings, signal);
    main.querySelector("h2")?.focus();
  };
  const again = async () => {
    if (!await mayLeave(game)) return;
    ended.abort();
    const seat = ownSeat(game) ?? seatsOf(game)[0];
    const model = seatsOf(game).map((other) => game.players[other]).find((name) => name !== null);
    const temperature = game.temperature === undefined ? "" : String(game.temperature);
    const choice = { game: game.kind?.name ?? "taboo", seat, model, options: { temperature } };
    const trouble = h("div", {});
    board.actions.append(trouble);
    start(main, settings, choice, trouble, signal);
  };
  const giveUp = async () => {
    ended.abort();
    game.gaveUp = true;
    refresh();
    await askThoughts(game, signal);
    if (signal.aborted || !board.root.isConnected) return;
    store.set("game", game);
    board.show(game);
  };

  /** Shows the game, and what can be done now. */
  const refresh = () => {
    score.count(game);
    store.set("game", game);
    board.show(game);
    fill(tallied, [tally()]);
    fill(aim, [goal(game)]);
    if (isOver(game)) {
      fill(board.actions, [
        h("button", { type: "button", class: "main", onclick: again }, another),
        h("button", { type: "button", onclick: leave }, "Change seats"),
        shareButtons(game, true),
      ]);
      board.focusVerdict(game);
    }
  };

  const composer = createComposer(settings, game, {
    say(text) {
      game.history.push({ role: nextRole(game), content: text });
      go();
    },
    giveUp,
    again,
  });

  const go = async () => {
    refresh();
    if (isOver(game)) return;
    composer.wait();
    fill(board.actions, [composer.root]);
    try {
      await advance(game, {
        changed: () => { score.count(game); store.set("game", game); board.show(game); },
        stream: (role) => board.stream(game, role),
        said: (said) => board.said(game, said),
      }, ended.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestError)) throw error;
      // An utterance of one's own that the server refuses is given back.
      const own = game.history.at(-1);
      if (error.status === 400 && own && own.role === ownSeat(game) && game.judged < game.history.length) {
        game.history.pop();
        refresh();
        composer.ready(own.content);
        board.trouble(error.message);
        return;
      }
      board.trouble(error.message, go);
      return;
    }
    if (ended.signal.aborted) return;
    refresh();
    if (!isOver(game)) composer.ready("");
  };
  go();
}

/** Where a person speaks. */
function createComposer(settings, game, { say, giveUp, again }) {
  const most = settings.longest_utterance;
  const label = h("span", {}, turnLabel(game));
  const hint = h("p", { class: "soft hint", id: "say-hint" }, "Enter says it; Shift and Enter begin a new line.");
  const input = h("textarea", {
    id: "say", rows: "2", dir: "auto", "aria-describedby": "say-hint", autocomplete: "off",
    oninput: () => limit(),
    onkeydown: (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        root.requestSubmit();
      }
    },
  });
  const button = h("button", { type: "submit", class: "main" }, "Say it");
  const legal = h("div", { class: "row legal", role: "group", "aria-label": "Legal actions" });
  const guess = ownSeat(game) === "defender" && h("button", {
    type: "button",
    onclick: () => {
      input.value = "I know the word! It is ";
      limit();
      input.focus();
    },
  }, "I know the word!");
  const root = h("form", {
    class: "composer",
    onsubmit: (event) => {
      event.preventDefault();
      const text = cleaned(input.value);
      if (input.readOnly || !limit()) return;
      if (text === "") {
        hint.textContent = "Say something first.";
        input.focus();
        return;
      }
      input.value = "";
      say(text);
    },
  },
  legal, h("label", { class: "field" }, label, input), hint,
  h("div", { class: "row" },
    button, guess || null,
    h("button", { type: "button", class: "quiet", onclick: giveUp }, "Give up"),
    h("button", { type: "button", class: "quiet", onclick: again }, game.kind ? "New game" : "New word"),
    h("span", { class: "share" }, shareButtons(game, wordIsOpen(game)))));

  /** Whether the text is short enough; says so if not. */
  const limit = () => {
    const length = [...cleaned(input.value)].length;
    const isFine = length <= most;
    input.setAttribute("aria-invalid", String(!isFine));
    hint.classList.toggle("wrong", !isFine);
    hint.textContent = isFine ? "Enter says it; Shift and Enter begin a new line."
      : `${length.toLocaleString("en")} characters are too many: an utterance has at most ${most.toLocaleString("en")}. Shorten it.`;
    return isFine;
  };
  return {
    root,
    /** The model speaks. */
    wait() {
      input.readOnly = true;
      button.disabled = true;
      fill(legal, [createGrid(game.position)]);
      label.textContent = "The model is speaking …";
    },
    /** The person speaks; `text` is what they said before. */
    ready(text) {
      input.readOnly = false;
      button.disabled = false;
      label.textContent = turnLabel(game);
      const actions = game.position?.legal ?? [];
      fill(legal, [createGrid(game.position, say) ?? actions.slice(0, MOST_BUTTONS).map((action) =>
        h("button", { type: "button", onclick: () => say(action) }, action))]);
      if (text) input.value = text;
      input.focus({ preventScroll: true });
      root.scrollIntoView({ block: "nearest" });
    },
  };
}
