// Curves of the training of runs.

import { get, RequestError } from "./api.js";
import { createChart } from "./charts.js";
import { fill, h, select } from "./dom.js";
import { labelled } from "./win_rates.js";

/** Curves that come first, with their names; others follow under theirs. */
const CURVES = new Map(Object.entries({
  loss: "Loss",
  without_signal: "Groups without a signal",
  item_information: "Information about the item, nats",
  entropy: "Entropy, nats a token",
  ties: "Ties",
  repeated_utterances: "Repeated utterances",
  left_out_games: "Games left out",
  reward_variance: "Variance of rewards",
  eval_loss: "Loss on evaluation data",
  kl: "KL term",
  policy: "Policy term: clipped rewards of the winners",
  sft: "SFT term",
  importance_ratio_mean: "Importance ratio, mean",
  importance_ratio_min: "Importance ratio, least",
  importance_ratio_max: "Importance ratio, greatest",
  clipped_fraction: "Clipped share",
  grad_norm: "Gradient norm",
  learning_rate: "Learning rate",
  tokens_per_second: "Tokens trained on per second",
  peak_memory_gib: "Peak memory, GiB",
  model_tflops: "10¹² operations per second",
}));
/** Curves that are shown at first: on a narrow page, where they are below each other, a few. */
const FEW_CURVES = matchMedia("(max-width: 640px)").matches ? 4 : Infinity;
/** Over how many values curves may be averaged. */
const SMOOTHINGS = [1, 5, 20, 100];
/** Numbers of the metrics that are no curves to look at. */
const LEFT_OUT = new Set(["epoch", "eval_samples", "eval_runtime"]);

/** Curves of training: a chart for each number, a line for each stage of each run. */
export function createTraining(signal) {
  const choice = h("div", {});
  const charts = h("div", { class: "charts" });
  const more = h("button", {
    type: "button",
    hidden: true,
    onclick: () => {
      most = Infinity;
      draw();
    },
  });
  const smoothing = select("Smoothing", {
    name: "smoothing",
    onchange: (event) => {
      smooth = Number(event.target.value);
      draw();
    },
  }, SMOOTHINGS.map((value) => ({ value: String(value), title: value === 1 ? "none" : `mean of ${value} values` })), "1");
  const root = h("section", { class: "section", hidden: true },
    h("h3", {}, "Training"), h("div", { class: "row" }, choice, smoothing), charts, more);
  let smooth = 1;
  let most = FEW_CURVES;
  /** By the stage's key: { version, curves }. */
  let known = new Map();
  let byName = new Map();
  let chosen = "";
  let options = "";
  /** Those of all runs that have curves, each with its run's index and label. */
  let stages = [];
  const key = (stage) => `${stage.run}/${stage.folder}`;

  const wanted = () => {
    if (chosen === "all") return stages;
    const own = stages.filter((stage) => stage.run === 0);
    const folder = stages.some((stage) => stage.folder === chosen) ? chosen
      : (own.findLast((stage) => stage.state === "running") ?? own.at(-1) ?? stages.at(-1))?.folder;
    return stages.filter((stage) => stage.folder === folder);
  };

  const draw = () => {
    const shown = wanted().filter((stage) => known.has(key(stage)));
    const names = new Set(shown.flatMap((stage) => Object.keys(known.get(key(stage)).curves)));
    const rest = [...names].filter((name) => !CURVES.has(name) && !LEFT_OUT.has(name)).sort();
    const order = [...[...CURVES.keys()].filter((name) => names.has(name)), ...rest];
    more.hidden = order.length <= most;
    more.textContent = `Show all ${order.length} curves`;
    const kept = new Map();
    for (const name of order.slice(0, most)) {
      const chart = byName.get(name) ?? createChart();
      const points = (stage) => known.get(key(stage)).curves[name] ?? [];
      chart.draw({
        title: CURVES.get(name) ?? name.replaceAll("_", " "),
        across: "step",
        smooth,
        series: shown.map((stage) => ({ name: labelled(stage.name, stage.label), points: points(stage) })),
      });
      kept.set(name, chart);
    }
    const isSame = kept.size === byName.size && [...kept.keys()].every((name, at) => [...byName.keys()][at] === name);
    byName = kept;
    if (!isSame) fill(charts, [...kept.values()].map((chart) => chart.root));
  };

  const load = async () => {
    const old = wanted().filter((stage) => known.get(key(stage))?.version !== stage.metrics);
    try {
      for (const stage of old) {
        known.set(key(stage), await get("page/live/curves", { stage: stage.folder, run: stage.run }, signal));
      }
    } catch (error) {
      // The next answer about the run says what is wrong.
      if (error.name !== "AbortError" && !(error instanceof RequestError)) throw error;
      return;
    }
    if (old.length > 0) draw();
  };

  return {
    root,
    reset() {
      known = new Map();
      byName = new Map();
      fill(charts, []);
    },
    /** Shows the stages of runs, `[{ label, state }]`. */
    show(runs) {
      stages = runs.flatMap(({ label, state }, run) => state.stages.filter((stage) => stage.metrics !== null)
        .map((stage) => ({ ...stage, run, label })));
      root.hidden = stages.length === 0;
      const trained = stages.filter((stage, at) => stages.findIndex((one) => one.folder === stage.folder) === at);
      const names = JSON.stringify(trained.map((stage) => stage.folder));
      if (names !== options) {
        options = names;
        const focused = choice.contains(document.activeElement);
        fill(choice, [select("Curves of", {
          name: "curves",
          onchange: (event) => {
            chosen = event.target.value;
            draw();
            load();
          },
        }, [
          { value: "", title: "the newest stage" },
          ...trained.map((stage) => ({ value: stage.folder, title: stage.name })),
          { value: "all", title: "all stages" },
        ], chosen)]);
        if (focused) choice.querySelector("select").focus();
      }
      load();
    },
  };
}
