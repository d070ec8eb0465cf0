// A game that somebody shared as a link.

import { RequestError } from "./api.js";
import { createBoard, entitle, shareButtons } from "./board.js";
import { fill, h, problem, store } from "./dom.js";
import { gameOfLink, isOver, judge, ownSeat, wordIsOpen } from "./game.js";

/** Shows the game of a link in `main` until `signal` aborts. */
export async function replay(main, settings, text, signal) {
  const heading = h("h2", { tabindex: "-1" }, "A shared game");
  const home = h("a", { class: "button", href: "#play" }, "Play a game of your own");
  let game;
  try {
    game = gameOfLink(text);
  } catch {
    fill(main, [heading, problem("This link holds no game. It may have been cut off where it was pasted."), home]);
    return;
  }
  const board = createBoard("A shared game");
  entitle(game.kind);
  fill(main, [heading, board.root]);
  const show = async () => {
    try {
      await judge(game, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestError)) throw error;
      if (error.status === 400) {
        fill(main, [heading, problem(`This link holds no game that can be played. (${error.message})`), home]);
        return;
      }
      board.trouble(error.message, show);
      return;
    }
    board.show(game);
    const mayGoOn = !isOver(game) && ownSeat(game) !== null
      && settings.models.some(({ name }) => Object.values(game.players).includes(name));
    const goOn = () => {
      game.counted = false;
      game.shared = false;
      store.set("game", game);
      location.hash = "#table";
    };
    fill(board.actions, [
      mayGoOn ? h("button", { type: "button", class: "main", onclick: goOn }, "Play on from here") : null,
      home,
      shareButtons(game, wordIsOpen(game)),
    ]);
  };
  show();
}
