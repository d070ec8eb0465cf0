// What a game may be given beside its players: a word, a temperature, a seed.

import { h } from "./dom.js";

/** The largest seed that JavaScript can hold exactly. */
const LARGEST_SEED = Number.MAX_SAFE_INTEGER;

function field(label, attributes) {
  return h("label", { class: "field" }, h("span", {}, label), h("input", attributes));
}

/** Fields that are usually left empty, folded. `kind` is null for Adversarial Taboo; `given` are what they had before. */
export function optionFields(settings, kind, given = {}) {
  const isGiven = Object.values(given).some((value) => value !== undefined && value !== "");
  const folded = h("details", { class: "options" }, h("summary", {}, kind === null ? "Word, temperature, seed" : "Temperature, seed"),
    h("div", { class: "row" },
      kind === null && field("Word (empty: any)", { name: "word", maxlength: "200", autocomplete: "off", dir: "auto", value: given.word ?? "" }),
      field("Temperature (0: greedy)", {
        name: "temperature", type: "number", min: "0", max: "10000", step: "any", inputmode: "decimal",
        placeholder: String(settings.temperature), value: given.temperature ?? "",
      }),
      field("Seed (empty: any)", {
        name: "seed", type: "number", min: "0", max: String(LARGEST_SEED), step: "1", inputmode: "numeric", value: given.seed ?? "",
      })));
  folded.open = isGiven;
  return folded;
}

/** What the fields of a form have: texts, empty if nothing is given. */
export function optionsOf(fields) {
  const text = (name) => (fields.get(name) ?? "").trim();
  return { word: text("word"), temperature: text("temperature"), seed: text("seed") };
}

/** What the server dealt, with what was given in its place. */
export function dealt(found, { word = "", temperature = "", seed = "" }) {
  return {
    ...found,
    target_word: word || found.target_word,
    seed: seed === "" ? found.seed : Number(seed),
    temperature: temperature === "" ? undefined : Number(temperature),
  };
}
