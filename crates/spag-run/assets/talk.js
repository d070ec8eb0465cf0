// What players say.

import { h, quoted } from "./dom.js";

/** A text with its first letter in upper case. */
export function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The name of a seat within a class. */
export function seatClass(seat) {
  return seat === null ? "tied" : seat.replaceAll(" ", "-");
}

/** What is shown of a text: also of one that has no letters. */
export function saidText(text) {
  return text.trim() === "" ? h("i", { class: "soft" }, "(says nothing)") : text;
}

/** An utterance of a seat. */
export function utterance(role, who, isOwn, children) {
  return h("li", { class: `said ${seatClass(role)}${isOwn ? " own" : ""}` },
    h("span", { class: "who" }, capitalised(role), " · ", quoted(who)),
    h("p", { class: "text", dir: "auto" }, children));
}
