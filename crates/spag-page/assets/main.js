// The page: its views.

import { get, RequestError } from "./api.js";
import { fill, h, problem } from "./dom.js";
import { play } from "./play.js";
import { replay } from "./replay.js";
import { runs } from "./runs.js";
import { startViews } from "./views.js";
import { watch } from "./watch.js";

let settings = null;

function show(main, hash, signal) {
  const [name] = hash.split(/[?=]/);
  document.body.classList.toggle("wide", name === "runs");
  switch (name) {
    case "game":
      replay(main, settings, hash.slice("game=".length), signal);
      return null;
    case "watch":
      watch(main, settings, signal);
      return "#watch";
    case "runs":
      runs(main, hash.split("?")[1] ?? "", signal);
      return "#runs";
    default:
      play(main, settings, hash, signal);
      return "#play";
  }
}

async function begin() {
  const main = document.getElementById("main");
  fill(main, [h("p", { class: "soft" }, "Loading …")]);
  try {
    settings = await get("/page/settings");
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    fill(main, [problem(error.message, begin)]);
    return;
  }
  document.getElementById("runs-link").hidden = settings.run === null;
  startViews(show);
}

begin();
