// A document in a file of its own.

import { fill, h } from "./dom.js";
import { documentParts } from "./report.js";

const described = JSON.parse(document.getElementById("document").textContent);
document.title = described.title;
fill(document.getElementById("main"), [h("h1", {}, described.title), documentParts(described)]);
