// Elements. Texts become text nodes, never HTML.

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "readOnly", "selected"]);

/** An element with attributes, listeners (`onclick`) and children: elements, texts, or nothing. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value);
  }
  fill(node, children);
  return node;
}

/** Replaces the children of an element: elements, texts and lists of them. What is nothing, or false, is left out. */
export function fill(node, children) {
  const shown = children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== "");
  node.replaceChildren(...shown);
}

/** An element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A text of others, which cannot change the direction of what is around it. */
export function quoted(text) {
  return h("bdi", {}, text);
}

/** Tells screen readers something. */
export function announce(text) {
  const announcer = document.getElementById("announcer");
  announcer.textContent = "";
  // A change that is made at once may not be told.
  setTimeout(() => { announcer.textContent = text; }, 50);
}

/** A group of buttons to choose one of: `options` are `{ value, title, text }`. */
export function choices(legend, name, options, chosen) {
  return h("fieldset", { class: "choices" },
    h("legend", {}, legend),
    options.map((option) => h("label", {},
      h("input", { type: "radio", name, value: option.value, checked: option.value === chosen }),
      h("span", { class: "choice" }, h("b", {}, option.title), h("span", {}, option.text)))));
}

/** A labelled list to choose one of. `options` are `{ value, title }`, or `{ group, options }`. */
export function select(label, attributes, options, chosen) {
  const option = ({ value, title }) => h("option", { value, selected: value === chosen }, title);
  const list = options.map((one) => one.group
    ? h("optgroup", { label: one.group }, one.options.map(option))
    : option(one));
  return h("label", { class: "field" }, h("span", {}, label), h("select", attributes, list));
}

/** A message with a way to go on. */
export function problem(message, retry) {
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, message),
    retry && h("button", { type: "button", class: "main", onclick: retry }, "Try again"));
}

/** Stored in this tab only. A browser may forbid it; the page then forgets. */
export const store = {
  get(name) {
    try { return JSON.parse(sessionStorage.getItem(`spag.${name}`)); } catch { return null; }
  },
  set(name, value) {
    try { sessionStorage.setItem(`spag.${name}`, JSON.stringify(value)); } catch { /* It is not kept. */ }
  },
  remove(name) {
    try { sessionStorage.removeItem(`spag.${name}`); } catch { /* It was not kept. */ }
  },
};
