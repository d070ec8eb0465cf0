// The page of a run: its views.

import { saveButton } from "./board.js";
import { live } from "./live.js";
import { runs } from "./runs.js";
import { startViews } from "./views.js";

startViews((main, hash, signal) => {
  const [name, query = ""] = hash.split("?");
  if (name !== "runs") {
    live(main, signal);
    return "#live";
  }
  // Games are saved but not linked: this server does not judge games of links.
  runs(main, query, signal, saveButton);
  return new URLSearchParams(query).has("report") ? "#runs?report" : "#runs";
});
