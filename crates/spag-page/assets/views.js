// Views of a page: addresses name them by what follows `#`.

const main = document.getElementById("main");
let view = new AbortController();

/**
 * Shows the view of the address, now and whenever it changes. `show(main, hash, signal)` fills the page and returns the
 * address of the link to mark; the signal stops the requests of the view when another one is chosen.
 */
export function startViews(show) {
  showView(show, true);
  addEventListener("hashchange", () => showView(show, false));
}

function showView(show, isFirst) {
  const hash = location.hash.slice(1);
  if (hash === "main" && !isFirst) {
    main.focus();
    return;
  }
  view.abort();
  view = new AbortController();
  const here = show(main, hash, view.signal);
  for (const link of document.querySelectorAll("nav[aria-label=Views] a")) {
    if (link.getAttribute("href") === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  // A view that is chosen gets the focus, so that one hears and reads on there.
  if (!isFirst) main.focus({ preventScroll: true });
}
