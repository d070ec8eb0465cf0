// The page of a run: its views and how addresses name them.

import { saveButton } from "./board.js";
import { live } from "./live.js";
import { runs } from "./runs.js";

const main = document.getElementById("main");
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
  const [name, query = ""] = hash.split("?");
  const here = name !== "runs" ? "#live" : new URLSearchParams(query).has("report") ? "#runs?report" : "#runs";
  for (const link of document.querySelectorAll("nav[aria-label=Views] a")) {
    if (link.getAttribute("href") === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  // Games are saved but not linked: this server does not judge games of links.
  if (name === "runs") runs(main, query, view.signal, saveButton);
  else live(main, view.signal);
  if (!isFirst) main.focus({ preventScroll: true });
}

show(true);
addEventListener("hashchange", () => show(false));
