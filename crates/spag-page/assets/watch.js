// Models that play each other, token by token.

import { get, RequestError } from "./api.js";
import { createBoard, entitle, shareButtons } from "./board.js";
import { fill, h, problem, select } from "./dom.js";
import { advance, isOver, newGame, newGameOf, seatsOf } from "./game.js";
import { dealt, optionFields, optionsOf } from "./options.js";
import { gameChoice, kindOf, playerChoices } from "./play.js";
import { rules } from "./rules.js";
import { capitalised } from "./talk.js";

// The last game, so that another view can be looked at meanwhile, and the name of the chosen kind.
let last = null;
let chosenKind = null;

/** Shows the view in `main` until `signal` aborts. */
export function watch(main, settings, signal) {
  const names = playerChoices(settings);
  const first = names[0].value;
  const kind = kindOf(settings, chosenKind ?? (last ? last.kind?.name ?? "taboo" : null));
  entitle(kind);
  const seats = kind?.seats ?? ["attacker", "defender"];
  const chosen = (seat) => last?.players[seat] ?? first;
  const table = h("div", {});
  let running = new AbortController();
  signal.addEventListener("abort", () => running.abort());

  const begin = async () => {
    running.abort();
    running = new AbortController();
    const fields = new FormData(form);
    const player = (role) => fields.get(role) ?? first;
    try {
      const word = dealt(await get("/page/word", {}, running.signal), optionsOf(fields));
      const players = Object.fromEntries(seats.map((seat) => [seat, player(seat)]));
      last = kind === null ? newGame(word, players) : newGameOf(kind, word, players);
      show(last);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestError)) throw error;
      fill(table, [problem(error.message, begin)]);
    }
  };

  const show = (game) => {
    const board = createBoard("A game between models");
    fill(table, [board.root]);
    const buttons = () => fill(board.actions, [
      isOver(game) ? null : h("button", { type: "button", onclick: () => { running.abort(); pause(); } }, "Stop"),
      isOver(game) ? [h("button", { type: "button", class: "main", onclick: begin }, "Watch another"), shareButtons(game, true)] : null,
    ]);
    const pause = () => fill(board.actions, [
      h("button", { type: "button", class: "main", onclick: () => { running = new AbortController(); go(); } }, "Go on"),
      shareButtons(game, true),
    ]);
    const go = async () => {
      board.show(game);
      buttons();
      const { signal: own } = running;
      try {
        await advance(game, {
          changed: () => board.show(game),
          stream: (role) => board.stream(game, role),
          said: (said) => board.said(game, said),
        }, own);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!(error instanceof RequestError)) throw error;
        board.trouble(error.message, go);
        return;
      }
      if (own.aborted) return;
      board.show(game);
      buttons();
      board.focusVerdict(game);
    };
    go();
  };

  const form = h("form", {
    class: "card setup",
    onsubmit: (event) => {
      event.preventDefault();
      begin();
    },
  },
  gameChoice(settings, kind, (name) => {
    running.abort();
    chosenKind = name;
    last = null;
    watch(main, settings, signal);
    main.querySelector("select[name=game]").focus();
  }),
  names.length > 1
    ? h("div", { class: "row" }, seats.map((seat) => select(capitalised(seat), { name: seat }, names, chosen(seat))))
    : h("p", { class: "soft" }, h("b", {}, h("bdi", {}, first)), " plays both seats."),
  optionFields(settings, kind),
  h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Watch a game")));
  const title = names.length > 1 ? "Watch models play" : "Watch the model play itself";
  fill(main, [h("h2", { tabindex: "-1" }, title), form, table, rules(settings, kind)]);
  if (last && seatsOf(last).join() === seats.join() && (last.kind?.name ?? null) === (kind?.name ?? null)) show(last);
}
