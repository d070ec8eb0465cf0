// Games as they end, the newest first.

import { createBoard } from "./board.js";
import { fill, h, quoted } from "./dom.js";
import { count } from "./numbers.js";
import { recorded } from "./runs.js";

/** Games on the page; fewer on a narrow one, where they are below each other. */
const SHOWN = matchMedia("(max-width: 640px)").matches ? 3 : 10;
/** Games that are added at once, so that one can read what is there. */
const ADDED = 2;

/** The list. `add` takes games as the server sends them, the newest first. */
export function createFeed() {
  let isPaused = false;
  const list = h("ol", { class: "feed", "aria-label": "Games, the newest first" });
  const none = h("p", { class: "soft" }, "No game has ended yet.");
  const button = h("button", {
    type: "button",
    "aria-pressed": "false",
    onclick: () => {
      isPaused = !isPaused;
      button.setAttribute("aria-pressed", String(isPaused));
    },
  }, "Hold the games");
  const root = h("section", { class: "section" },
    h("div", { class: "head" }, h("h3", {}, "Games as they end"), button), none, list);

  const item = (game, titles) => {
    const shown = recorded(game, game.set);
    const place = [quoted(titles.get(game.set) ?? game.set), game.game === null ? "" : `, game ${count(game.game)}`];
    const board = createBoard("A game of the run");
    board.show(shown);
    return h("li", { class: "card" }, h("p", { class: "soft" }, place), board.root);
  };

  return {
    root,
    /** Forgets all games: the folder has another run. */
    reset() {
      fill(list, []);
      none.hidden = false;
    },
    add(games, sets) {
      if (isPaused || games.length === 0) return;
      const titles = new Map(sets.map((set) => [set.file, set.title]));
      const newest = games.slice(0, list.childElementCount === 0 ? SHOWN : ADDED);
      list.prepend(...newest.map((game) => item(game, titles)));
      while (list.childElementCount > SHOWN) list.lastElementChild.remove();
      none.hidden = true;
    },
  };
}
