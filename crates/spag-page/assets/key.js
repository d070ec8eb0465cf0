// The dialog that asks for a key of the server.

import { h } from "./dom.js";

let dialog = null;

/** The dialog, made when it is needed first. */
function made() {
  const input = h("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: "" });
  const problem = h("p", { class: "problem", hidden: true }, "The server does not know this key.");
  const submit = (event) => {
    event.preventDefault();
    node.close(input.value.trim());
  };
  const node = h("dialog", { id: "key-dialog", "aria-labelledby": "key-title" },
    h("form", { onsubmit: submit },
      h("h2", { id: "key-title" }, "This server needs a key"),
      h("p", {}, "Ask whoever runs it. The key stays in this tab until you close it."),
      problem,
      h("label", { for: "key" }, "Key"),
      input,
      h("div", { class: "row" },
        h("button", { type: "submit", class: "main" }, "Use this key"),
        h("button", { type: "button", onclick: () => node.close("") }, "Cancel"))));
  document.body.append(node);
  return { node, input, problem };
}

/** Asks for a key. `refused`: the one that was given is not known. Resolves to the key, or to "" if none is given. */
export function askForKey(refused) {
  dialog ??= made();
  const { node, input, problem } = dialog;
  problem.hidden = !refused;
  input.value = "";
  node.returnValue = "";
  const closed = new Promise((resolve) => {
    node.addEventListener("close", () => resolve(node.returnValue), { once: true });
  });
  node.showModal();
  input.focus();
  return closed;
}
