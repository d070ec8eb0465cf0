// Models that play each other, token by token.

import { get, RequestError } from "./api.js";
import { createBoard, shareButtons } from "./board.js";
import { fill, h, problem, select } from "./dom.js";
import { advance, isOver, newGame } from "./game.js";
import { rules } from "./play.js";

// The last game, so that another view can be looked at meanwhile.
let last = null;

/** Shows the view in `main` until `signal` aborts. */
export function watch(main, settings, signal) {
  const names = settings.models.map(({ name }) => ({ value: name, title: name }));
  const first = names[0].value;
  const chosen = { attacker: last?.players.attacker ?? first, defender: last?.players.defender ?? first };
  const table = h("div", {});
  let running = new AbortController();
  signal.addEventListener("abort", () => running.abort());

  const begin = async () => {
    running.abort();
    running = new AbortController();
    const fields = new FormData(form);
    const player = (role) => fields.get(role) ?? first;
    try {
      const word = await get("/page/word", {}, running.signal);
      last = newGame(word, { attacker: player("attacker"), defender: player("defender") });
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
      isOver(game) ? shareButtons(game, true) : null,
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
  names.length > 1
    ? h("div", { class: "row" },
      select("Attacker", { name: "attacker" }, names, chosen.attacker),
      select("Defender", { name: "defender" }, names, chosen.defender))
    : h("p", { class: "soft" }, h("b", {}, h("bdi", {}, first)), " plays both seats."),
  h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Watch a game")));
  fill(main, [h("h2", { tabindex: "-1" }, "Watch the model play itself"), form, table, rules(settings)]);
  if (last) show(last);
}
