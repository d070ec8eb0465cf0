// What a person who begins a game of Adversarial Taboo has to do.

import { h, quoted } from "./dom.js";
import { isOver, ownSeat } from "./game.js";

/** The goal, with a first hint; nothing once the person has spoken, and for games that tell their rules themselves. */
export function goal(game) {
  const seat = ownSeat(game);
  const hasSpoken = game.history.some(({ role }) => role === seat);
  if (game.kind || seat === null || hasSpoken || isOver(game)) return null;
  const opponent = h("b", {}, quoted(game.players[seat === "attacker" ? "defender" : "attacker"]));
  if (seat === "attacker") {
    return h("div", { class: "card goal" },
      h("p", {}, "You are the attacker. Make ", opponent, " say ", h("b", {}, quoted(game.target_word)), " without saying it yourself."),
      h("p", { class: "soft" }, "Begin with a question about something near it, so that an answer is likely to have the word. If ",
        opponent.cloneNode(true), " guesses that it is the word, you lose."));
  }
  return h("div", { class: "card goal" },
    h("p", {}, "You are the defender. ", opponent, " has a word and wants you to say it. Find out which it is."),
    h("p", { class: "soft" }, "Answer in words that are unlikely to be it. When you are sure, say: I know the word! It is … A wrong word loses."));
}
