// The dialog that asks before something is lost.

import { h } from "./dom.js";

/** Asks a question. Resolves to whether the answer is `yes`. */
export function confirmed(question, yes, no) {
  const node = h("dialog", { class: "confirm", "aria-labelledby": "confirm-title" },
    h("h2", { id: "confirm-title" }, question),
    h("div", { class: "row" },
      h("button", { type: "button", class: "main", onclick: () => node.close("yes") }, yes),
      h("button", { type: "button", onclick: () => node.close("") }, no)));
  document.body.append(node);
  return new Promise((resolve) => {
    node.addEventListener("close", () => {
      node.remove();
      resolve(node.returnValue === "yes");
    }, { once: true });
    node.showModal();
  });
}
