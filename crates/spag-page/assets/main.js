// The page: its views and how addresses name them.

import { get, RequestError } from "./api.js";
import { fill, h, problem } from "./dom.js";
import { play } from "./play.js";
import { replay } from "./replay.js";
import { runs } from "./runs.js";
import { watch } from "./watch.js";

const main = document.getElementById("main");
let settings = null;
let view = new AbortController();

/** Shows the view of the address. The views that came before stop their requests. */
function show(isFirst) {
  const hash = location.hash.slice(1);
  if (hash === "main" && !isFirst) {
    main.focus();
    return;
  }
  view.abort();
  view = new AbortController();
  const [name] = hash.split(/[?=]/);
  for (const link of document.querySelectorAll("nav[aria-label=Views] a")) {
    const isHere = link.hash.slice(1) === (name === "watch" || name === "runs" ? name : name === "game" ? "" : "play");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.classList.toggle("wide", name === "runs");
  if (name === "game") replay(main, settings, hash.slice("game=".length), view.signal);
  else if (name === "watch") watch(main, settings, view.signal);
  else if (name === "runs") runs(main, hash.split("?")[1] ?? "", view.signal);
  else play(main, settings, view.signal);
  // A view that is chosen gets the focus, so that one hears and reads on there.
  if (!isFirst) main.focus({ preventScroll: true });
}

async function begin() {
  fill(main, [h("p", { class: "soft" }, "Loading …")]);
  try {
    settings = await get("/page/settings");
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    fill(main, [problem(error.message, begin)]);
    return;
  }
  document.getElementById("runs-link").hidden = settings.run === null;
  show(true);
  addEventListener("hashchange", () => show(false));
}

begin();
