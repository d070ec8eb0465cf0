// The rules of Adversarial Taboo.

import { h } from "./dom.js";

const RULES = [
  "The attacker gets a word and begins. Both speak in turn.",
  "The attacker wins if the defender says the word without naming it, or names a wrong one. The attacker must not say it.",
  "The defender names the word with: I know the word! It is … A right word wins, a wrong one loses.",
  "Forms of the word count too, such as its plural. If nothing decides the game within its turns, it is a tie.",
];

/** The rules of Adversarial Taboo, folded. Other games tell theirs themselves. */
export function rules(settings, kind = null) {
  if (kind !== null) return null;
  const judge = settings.judge === "paper"
    ? "The judge finds the word anywhere, also inside of other words: “art” in “start”."
    : "The judge counts whole words only.";
  return h("details", { class: "rules" }, h("summary", {}, "Rules"),
    h("ul", {}, [...RULES, judge].map((rule) => h("li", {}, rule))));
}
