// A run while it works: polled, since that works over every kind of forwarding.

import { get, RequestError } from "./api.js";
import { createChart } from "./charts.js";
import { announce, fill, h, problem, quoted, select } from "./dom.js";
import { capitalised } from "./board.js";
import { createFeed } from "./feed.js";
import { endingName } from "./runs.js";
import { bytes, count, duration, figure, percent, rate } from "./numbers.js";

/** Milliseconds between two questions. */
const PAUSE = 2000;
const WHILE_BEHIND = 1000;
const WHILE_HIDDEN = 10_000;

const STATES = {
  waiting: "The run has not begun.",
  running: "The run works.",
  silent: "The process of the run is there, but it has written nothing for a while: it may be stopped, or its disk may hang.",
  finished: "The run is finished.",
  stopped: "A rule of its settings stopped the run; what there is was measured.",
  failed: "The run has failed.",
  interrupted: "The run was interrupted: its process is gone. The command that started it takes it up where it was.",
  unknown: "No process of this run has said what it does. It may be loading a model, or have ended.",
};

/** Curves that come first, with their names; others follow under theirs. */
const CURVES = new Map(Object.entries({
  loss: "Loss",
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
const ENDINGS = { right_guess: "named", wrong_guess: "wrong guess", said_unknowingly: "unknowingly", broken_rule: "broken rule", tie: "ties" };

/** A table whose rows become blocks on narrow pages. The first cell of a row is its heading. */
function createTable(name, headings) {
  const body = h("tbody", {});
  const head = h("tr", {}, headings.map((heading) => h("th", { scope: "col" }, heading)));
  const root = h("table", { class: "rows", "aria-label": name }, h("thead", {}, head), body);
  let before = null;
  return {
    root,
    /** Replaces the headings. */
    rename(names) {
      if (names.join() === headings.join()) return;
      headings = names;
      before = null;
      fill(head, headings.map((heading) => h("th", { scope: "col" }, heading)));
    },
    /** Shows rows if they are others than before: what somebody selects stays selected. `key` says what they are made of. */
    show(key, rows) {
      const now = JSON.stringify(key);
      if (now === before) return;
      before = now;
      fill(body, rows().map(([first, ...cells]) => h("tr", {},
        h("th", { scope: "row" }, first),
        cells.map((cell, at) => h("td", { "data-label": headings[at + 1] }, cell)))));
    },
  };
}

/** Shows the view in `main` until `signal` aborts. */
export async function live(main, signal) {
  const heading = h("h2", { tabindex: "-1" }, "A run");
  const badge = h("span", { class: "badge" }, "…");
  const sentence = h("span", {});
  const toReport = h("a", { class: "button", href: "#runs?report", hidden: true }, "Open the report");
  const trouble = h("div", {});
  const now = createNow();
  const stages = createTable("Stages", ["Stage", "State", "Time", "Parts", "Numbers"]);
  const games = createGames();
  const training = createTraining(signal);
  const feed = createFeed();
  const ranks = createTable("Ranks", ["Rank", "State", "Works on", "Done", "Memory", "Peak", "GPU peak"]);
  fill(main, [
    heading,
    h("p", { class: "state", role: "status" }, badge, " ", sentence, " ", toReport),
    trouble,
    now.root,
    h("section", { class: "section" }, h("h3", {}, "Stages"), stages.root),
    games.root,
    training.root,
    h("section", { class: "section" }, h("h3", {}, "Ranks"), ranks.root),
    feed.root,
  ]);

  let epoch = null;
  let from = 0;
  let told = "";
  const show = (run) => {
    if (run.epoch !== epoch) {
      feed.reset();
      training.reset();
    }
    epoch = run.epoch;
    from = run.next_game;
    fill(heading, ["The run ", quoted(run.name)]);
    document.title = `${run.state} · ${run.name}`;
    if (badge.textContent !== run.state) {
      badge.textContent = run.state;
      badge.className = `badge ${run.state}`;
    }
    const errors = run.ranks.filter((rank) => rank.error !== null);
    if (sentence.textContent !== STATES[run.state]) sentence.textContent = STATES[run.state] ?? "";
    toReport.hidden = !run.report;
    document.getElementById("report-link").hidden = !run.report;
    const problems = [
      ...run.problems,
      ...errors.map((rank) => (run.ranks.length > 1 ? `Rank ${rank.rank}: ${rank.error}` : rank.error)),
    ];
    showProblems(trouble, problems);
    now.show(run);
    stages.show([run.stages, run.ranks[0]?.seconds_left], () => run.stages.map((stage) => stageRow(stage, run)));
    games.show(run);
    training.show(run.stages);
    const rows = run.ranks.map((rank) => ({ ...rank, seconds_since_written: Math.floor(rank.seconds_since_written / 5), seconds_running: 0 }));
    ranks.show(rows, () => run.ranks.map(rankRow));
    feed.add(run.games, run.sets);
    // Only what changes now and then is told: counts change all the time.
    const doing = `${run.state}. ${now.doing(run)}`;
    if (doing !== told && told !== "") announce(doing);
    told = doing;
    return document.hidden ? WHILE_HIDDEN : run.is_behind ? WHILE_BEHIND : PAUSE;
  };

  while (!signal.aborted) {
    let pause = PAUSE;
    try {
      pause = show(await get("page/live", { epoch, from }, signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestError)) throw error;
      const again = "The page shows what was known, and asks again by itself.";
      showProblems(trouble, [error.status === 0
        ? `The server does not answer. ${again} If it was part of the run, the run has ended: spag watch shows its folder.`
        : `${error.message} ${again}`]);
    }
    await sleep(pause, signal);
  }
}

/** Waits, or until the page is looked at again. */
function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const listening = new AbortController();
    const done = () => {
      clearTimeout(timer);
      listening.abort();
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done, { signal: listening.signal });
    document.addEventListener("visibilitychange", done, { signal: listening.signal });
  });
}

function showProblems(trouble, problems) {
  const key = problems.join("\n");
  if (trouble.dataset.shown === key) return;
  trouble.dataset.shown = key;
  fill(trouble, problems.map((message) => problem(quoted(message))));
}

/** What rank 0 does now. */
function createNow() {
  const what = h("p", { class: "doing" });
  const bar = h("progress", { "aria-label": "Progress of this part" });
  const numbers = h("p", { class: "soft" });
  const root = h("section", { class: "card section", "aria-label": "Now", hidden: true }, what, bar, numbers);
  const doing = (run) => {
    const first = run.ranks[0];
    if (!first || run.state === "finished" || run.state === "stopped") return "";
    return first.part === "" ? first.stage : `${first.stage}: ${first.part}`;
  };
  return {
    root,
    doing,
    show(run) {
      const first = run.ranks[0];
      root.hidden = doing(run) === "";
      if (root.hidden) return;
      const text = doing(run);
      if (what.textContent !== text) fill(what, [quoted(text)]);
      bar.hidden = first.total === 0;
      bar.max = Math.max(1, first.total);
      bar.value = first.done;
      const isWorking = run.state === "running";
      const training = run.stages.find((stage) => stage.name === first.stage)?.tokens_per_second;
      const parts = [
        first.total > 0 ? `${count(first.done)} of ${count(first.total)}` : first.part === "" ? "between two parts" : "",
        isWorking && first.rate !== null ? rate(first.rate, unit(first.part)) : "",
        isWorking && first.part === "training" && training ? `${figure(training)} tokens/s` : "",
        isWorking && first.seconds_left !== null ? `${duration(first.seconds_left)} left` : "",
        first.note,
        first.seconds_since_written > 10 ? `last sign of life ${duration(first.seconds_since_written)} ago`
          : first.seconds_since_progress > 30 ? `last progress ${duration(first.seconds_since_progress)} ago` : "",
      ];
      fill(numbers, [quoted(parts.filter((part) => part !== "").join(" · "))]);
    },
  };
}

function unit(part) {
  if (part.endsWith("games")) return "games";
  return part === "training" ? "steps" : "units";
}

/** A text of others, or nothing. */
function maybe(text) {
  return text === "" ? "" : quoted(text);
}

function stageRow(stage, run) {
  const first = run.ranks[0];
  const isCurrent = stage.state === "running" && first?.stage === stage.name;
  let time = "";
  if (stage.seconds !== null) time = `${duration(stage.seconds)}${stage.resumed ? " since it was resumed" : ""}`;
  else if (isCurrent && first.seconds_left !== null) time = `${duration(first.seconds_left)} left in this part`;
  else if (stage.expected_seconds !== null && stage.state !== "done") time = `about ${duration(stage.expected_seconds)}, as the one before`;
  const parts = stage.seconds_by_part === null
    ? stage.parts.join(", ")
    : Object.entries(stage.seconds_by_part).map(([part, seconds]) => `${part} ${duration(seconds)}`).join(", ");
  const numbers = Object.entries(stage.counts ?? {}).map(([what, number]) => `${count(number)} ${what}`);
  if (stage.tokens_per_second !== null) numbers.push(`${figure(stage.tokens_per_second)} tokens/s`);
  if (stage.peak_memory_gib !== null) numbers.push(`peak ${figure(stage.peak_memory_gib)} GiB`);
  return [quoted(stage.name), h("span", { class: `badge ${stage.state.replace(" ", "-")}` }, stage.state), time, maybe(parts), maybe(numbers.join(", "))];
}

function rankRow(rank) {
  const memory = (number) => (number === null ? "–" : bytes(number));
  const age = rank.seconds_since_written > 10 && ["running", "silent", "gone"].includes(rank.state)
    ? `, last seen ${duration(rank.seconds_since_written)} ago` : "";
  return [
    h("span", {}, String(rank.rank), h("span", { class: "soft" }, " ", quoted(`${rank.host}, process ${rank.pid}`))),
    h("span", {}, h("span", { class: `badge ${rank.state}` }, rank.state), age),
    maybe(rank.part === "" ? rank.stage : `${rank.stage}: ${rank.part}`),
    rank.total > 0 ? `${count(rank.done)} of ${count(rank.total)}` : "–",
    memory(rank.resident_bytes),
    memory(rank.peak_bytes),
    memory(rank.gpu_peak_bytes),
  ];
}

/** Win rates: of all files of games as a table, of the one that changed last as a chart. */
function createGames() {
  const table = createTable("Win rates", ["Games", "Ended", "Attacker won", "Defender won", "How they ended", "Utterances"]);
  const chart = createChart();
  const note = h("p", { class: "soft" });
  const root = h("section", { class: "section", hidden: true }, h("h3", {}, "Win rates"), note, table.root, h("div", { class: "charts" }, chart.root));
  let before = new Map();
  let current = null;
  return {
    root,
    show(run) {
      const sets = run.sets.filter((set) => set.games + set.failed + set.unreadable > 0);
      root.hidden = sets.length === 0;
      if (root.hidden) return;
      const seats = new Set(sets.map((set) => set.seats.join()));
      const [first, second] = seats.size === 1 ? sets[0].seats.map(capitalised) : ["First player", "Second player"];
      table.rename(["Games", "Ended", `${first} won`, `${second} won`, "How they ended", "Utterances"]);
      const broken = first === "Attacker" ? "a broken rule is a win of the defender" : "who breaks a rule loses";
      note.textContent = `Shares of all games; ${broken}.`;
      table.show(sets.map(({ course, ...set }) => set), () => sets.map(gamesRow));
      const changed = sets.filter((set) => before.get(set.file) !== set.games);
      before = new Map(sets.map((set) => [set.file, set.games]));
      // Of several at once, as at the first look, that of the stage in progress or the last one.
      const next = changed.find((set) => run.ranks[0]?.part !== "" && set.folder.split("/")[0] === run.ranks[0]?.stage) ?? changed.at(-1);
      if (!next && current !== null) return;
      current = (next ?? sets.at(-1)).file;
      const set = sets.find((one) => one.file === current);
      const share = (of) => set.course.map((point) => [point[0], (100 * point[of]) / point[0]]);
      chart.draw({
        title: `${set.title}: % of games won`,
        across: "games",
        range: [0, 100],
        series: set.seats.map((seat, at) => ({ name: seat, points: share(at + 1) })),
      });
    },
  };
}

function gamesRow(set) {
  const endings = set.endings.filter((one) => one.games > 0).map((one) => `${ENDINGS[one.ending] ?? endingName(one.ending)} ${count(one.games)}`);
  if (set.failed > 0) endings.push(`not played to the end ${count(set.failed)}`);
  if (set.unreadable > 0) endings.push(`unreadable rows ${count(set.unreadable)}`);
  return [
    quoted(set.title),
    count(set.games),
    ...set.wins.map((wins) => percent(wins, set.games)),
    endings.join(", "),
    set.games > 0 ? `${figure(set.utterances / set.games)} a game` : "–",
  ];
}

/** Curves of training: a chart for each number, a line for each stage. */
function createTraining(signal) {
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
  /** By the folder of the stage: { version, curves }. */
  let known = new Map();
  let byName = new Map();
  let chosen = "";
  let options = "";
  let stages = [];

  const wanted = () => {
    const trained = stages.filter((stage) => stage.metrics !== null);
    if (chosen === "all") return trained;
    const one = trained.find((stage) => stage.folder === chosen) ?? trained.findLast((stage) => stage.state === "running") ?? trained.at(-1);
    return one ? [one] : [];
  };

  const draw = () => {
    const shown = wanted().filter((stage) => known.has(stage.folder));
    const names = new Set(shown.flatMap((stage) => Object.keys(known.get(stage.folder).curves)));
    const rest = [...names].filter((name) => !CURVES.has(name) && !LEFT_OUT.has(name)).sort();
    const order = [...[...CURVES.keys()].filter((name) => names.has(name)), ...rest];
    more.hidden = order.length <= most;
    more.textContent = `Show all ${order.length} curves`;
    const kept = new Map();
    for (const name of order.slice(0, most)) {
      const chart = byName.get(name) ?? createChart();
      const points = (stage) => known.get(stage.folder).curves[name] ?? [];
      chart.draw({
        title: CURVES.get(name) ?? name.replaceAll("_", " "),
        across: "step",
        smooth,
        series: shown.map((stage) => ({ name: stage.name, points: points(stage) })),
      });
      kept.set(name, chart);
    }
    const isSame = kept.size === byName.size && [...kept.keys()].every((name, at) => [...byName.keys()][at] === name);
    byName = kept;
    if (!isSame) fill(charts, [...kept.values()].map((chart) => chart.root));
  };

  const load = async () => {
    const old = wanted().filter((stage) => known.get(stage.folder)?.version !== stage.metrics);
    try {
      for (const stage of old) {
        known.set(stage.folder, await get("page/live/curves", { stage: stage.folder }, signal));
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
    show(all) {
      stages = all;
      const trained = stages.filter((stage) => stage.metrics !== null);
      root.hidden = trained.length === 0;
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
