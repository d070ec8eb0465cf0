// A run while it works: polled, since that works over every kind of forwarding.

import { get, RequestError } from "./api.js";
import { announce, fill, h, problem, quoted } from "./dom.js";
import { createFeed } from "./feed.js";
import { bytes, count, duration, figure, rate } from "./numbers.js";
import { createTable } from "./table.js";
import { createTraining } from "./training.js";
import { createWinRates } from "./win_rates.js";

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

/** Shows the view in `main` until `signal` aborts. */
export async function live(main, signal) {
  const heading = h("h2", { tabindex: "-1" }, "A run");
  const badge = h("span", { class: "badge" }, "…");
  const sentence = h("span", {});
  const toReport = h("a", { class: "button", href: "#runs?report", hidden: true }, "Open the report");
  const trouble = h("div", {});
  const warnings = h("div", {});
  const now = createNow();
  const stages = createTable("Stages", ["Stage", "State", "Time", "Parts", "Numbers"]);
  const beside = createTable("Runs", ["Run", "State", "Stages done", "Time of these", "Games"]);
  const compared = h("section", { class: "section", hidden: true }, h("h3", {}, "Runs beside each other"), beside.root);
  const games = createWinRates();
  const training = createTraining(signal);
  const feed = createFeed();
  const ranks = createTable("Ranks", ["Rank", "State", "Works on", "Done", "Memory", "Peak", "GPU peak"]);
  fill(main, [
    heading,
    h("p", { class: "state", role: "status" }, badge, " ", sentence, " ", toReport),
    trouble,
    warnings,
    now.root,
    compared,
    h("section", { class: "section" }, h("h3", {}, "Stages"), stages.root),
    games.root,
    training.root,
    h("section", { class: "section" }, h("h3", {}, "Ranks"), ranks.root),
    feed.root,
  ]);

  let told = "";
  // Of each run what the server said last; the first is the one whose page this is.
  const states = [];
  const ask = async (at) => {
    const before = states[at];
    const state = await get("page/live", { run: at, epoch: before?.epoch, from: before?.next_game ?? 0 }, signal);
    if (state.epoch !== before?.epoch) {
      if (at === 0) feed.reset();
      training.reset();
    }
    states[at] = state;
  };
  const show = () => {
    const run = states[0];
    // What a run is called beside others; alone it needs no name.
    const runs = states.map((state, at) => ({ label: states.length > 1 ? run.labels[at] : null, state }));
    compared.hidden = runs.length === 1;
    if (!compared.hidden) beside.show(runs.map(({ state }) => [state.state, state.stages, state.sets.map((set) => set.games)]), () => runs.map(runRow));
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
    const named = (texts) => runs.flatMap(({ label, state }) => texts(state).map((one) => (label === null ? one : `${label}: ${one}`)));
    const problems = [
      ...named((state) => state.problems),
      ...errors.map((rank) => (run.ranks.length > 1 ? `Rank ${rank.rank}: ${rank.error}` : rank.error)),
    ];
    showTexts(trouble, problems, problem);
    showTexts(warnings, named((state) => state.warnings), (warning) => h("p", { class: "problem", role: "note" }, "Warning: ", warning));
    now.show(run);
    stages.show([run.stages, run.ranks[0]?.seconds_left], () => run.stages.map((stage) => stageRow(stage, run)));
    games.show(runs);
    training.show(runs);
    const rows = run.ranks.map((rank) => ({ ...rank, seconds_since_written: Math.floor(rank.seconds_since_written / 5), seconds_running: 0 }));
    ranks.show(rows, () => run.ranks.map(rankRow));
    feed.add(run.games, run.sets);
    // Only what changes now and then is told: counts change all the time.
    const doing = `${run.state}. ${now.doing(run)}`;
    if (doing !== told && told !== "") announce(doing);
    told = doing;
    return document.hidden ? WHILE_HIDDEN : states.some((state) => state.is_behind) ? WHILE_BEHIND : PAUSE;
  };

  while (!signal.aborted) {
    let pause = PAUSE;
    try {
      await ask(0);
      for (let at = 1; at < states[0].labels.length; at += 1) await ask(at);
      pause = show();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestError)) throw error;
      const again = "The page shows what was known, and asks again by itself.";
      showTexts(trouble, [error.status === 0
        ? `The server does not answer. ${again} If it was part of the run, the run has ended: spag watch shows its folder.`
        : `${error.message} ${again}`], problem);
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

/** Shows each of some texts as an element that `shown` makes of it, if they have changed. */
function showTexts(root, texts, shown) {
  const key = texts.join("\n");
  if (root.dataset.shown === key) return;
  root.dataset.shown = key;
  fill(root, texts.map((text) => shown(quoted(text))));
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

/** A run beside others. */
function runRow({ label, state }) {
  const done = state.stages.filter((stage) => stage.state === "done");
  const seconds = done.reduce((sum, stage) => sum + (stage.seconds ?? 0), 0);
  const games = state.sets.reduce((sum, set) => sum + set.games, 0);
  return [quoted(label), h("span", { class: `badge ${state.state}` }, state.state), `${done.length} of ${state.stages.length}`, duration(seconds), count(games)];
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
  if (stage.peak_memory_gib !== null) numbers.push(`peak ${bytes(stage.peak_memory_gib * 2 ** 30)}`);
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
