//! Incremental reader of a run folder: each request reads only what is new in its files.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use spag_io::{EntryKind, quote};
use spag_run::{Curves, Found, Life, Ranks, RunFolder, RunIdentity, Stage, StageDone, UpdateMeasures};

use super::games::Games;
use super::rank::rank_json;
use crate::runs::ShownRun;

/// Time between two readings of the files, however many pages ask.
const PAUSE: Duration = Duration::from_millis(300);
/// Time of one reading. A long file is read in several.
const READING: Duration = Duration::from_millis(300);
/// Problems that are shown, and warnings.
const MAX_PROBLEMS: usize = 5;

/// A stage with what its files say.
struct StageView {
    stage: Stage,
    done: Option<StageDone>,
    has_begun: bool,
}

/// The state of a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum RunState {
    /// There are no stages yet.
    Waiting,
    Running,
    /// It works, but its first rank has written nothing for long.
    Silent,
    Finished,
    /// A rule of the run stopped it.
    Stopped,
    Failed,
    /// Its processes are gone.
    Interrupted,
    /// No process has said what it does: the run loads its first model.
    Unknown,
}

/// What is known of a run.
pub(super) struct View {
    /// Changes if the folder gets another run.
    epoch: u64,
    run: Option<RunIdentity>,
    read: Option<Instant>,
    stages: Vec<StageView>,
    ranks: Ranks,
    games: Games,
    /// By the folder of the stage.
    curves: BTreeMap<String, Curves>,
    is_behind: bool,
    problems: Vec<String>,
}

impl View {
    pub(super) fn new(folder: &ShownRun) -> Self {
        Self {
            epoch: 0,
            run: None,
            read: None,
            stages: Vec::new(),
            ranks: Ranks::default(),
            games: Games::new(folder.games_played()),
            curves: BTreeMap::new(),
            is_behind: false,
            problems: Vec::new(),
        }
    }

    /// Lets the next request read the files again at once.
    pub(super) fn expire(&mut self) {
        self.read = None;
    }

    /// Reads what is new, unless it was read a moment ago.
    pub(super) fn update(&mut self, folder: &ShownRun) {
        if self.read.is_some_and(|read| read.elapsed() < PAUSE) {
            return;
        }
        let run = folder.folder();
        self.problems.clear();
        let subfolders = match subfolders(run) {
            Ok(names) => names,
            Err(error) => {
                let what = "The run folder cannot be read. It may have been deleted or moved";
                self.problems.push(format!("{what}: {} ({error})", quote(&run.root().display().to_string())));
                return;
            }
        };
        self.begin_anew_if_changed(folder);
        self.stages = run
            .stages()
            .into_iter()
            .map(|stage| StageView { done: run.done(&stage), has_begun: run.has_begun(&stage), stage })
            .collect();
        self.ranks.update(run);
        let deadline = Instant::now() + READING;
        self.is_behind = false;
        for StageView { stage, .. } in &self.stages {
            let curves = self.curves.entry(stage.folder.clone());
            match curves.or_insert_with(|| Curves::new(run.metrics(stage))).update(deadline) {
                Ok(found) => self.is_behind |= found == Found::More,
                Err(error) => self.problems.push(format!("{}/metrics.jsonl: {error}", stage.folder)),
            }
        }
        let listed: Vec<&str> = self.stages.iter().map(|one| one.stage.folder.as_str()).collect();
        let others = subfolders.iter().map(String::as_str).filter(|name| !listed.contains(name));
        let folders = listed.iter().copied().chain(others);
        self.is_behind |= self.games.update(run.files(), folders, deadline, &mut self.problems);
        self.problems.truncate(MAX_PROBLEMS);
        self.read = Some(Instant::now());
    }

    /// Forgets everything if the folder holds another run than before.
    fn begin_anew_if_changed(&mut self, folder: &ShownRun) {
        let run = folder.folder().identity();
        if run != self.run {
            self.epoch += 1;
            self.run = run;
            self.curves.clear();
            self.games.forget(folder.games_played());
        }
    }

    fn state(&self, has_report: bool) -> RunState {
        let all_done = || self.stages.iter().all(|one| one.done.is_some() || one.stage.name == "benchmarks");
        if self.ranks.all().iter().any(|rank| rank.life == Life::Failed) {
            return RunState::Failed;
        }
        match self.ranks.first().map(|rank| rank.life) {
            Some(Life::Finished) => RunState::Finished,
            Some(Life::Stopped) => RunState::Stopped,
            Some(Life::Running) => RunState::Running,
            Some(Life::Silent) => RunState::Silent,
            Some(Life::Gone | Life::Failed) => RunState::Interrupted,
            None if self.stages.is_empty() => RunState::Waiting,
            None if has_report && all_done() => RunState::Finished,
            None => RunState::Unknown,
        }
    }

    /// Everything but curves, with games from number `from` on.
    pub(super) fn json(&self, folder: &ShownRun, epoch: Option<u64>, from: u64) -> Value {
        let has_report = folder.has_report();
        let state = self.state(has_report);
        let from = if epoch == Some(self.epoch) { from } else { 0 };
        let first = self.ranks.first();
        json!({
            "epoch": self.epoch,
            "name": folder.name(),
            "folder": quote(&folder.folder().root().display().to_string()),
            "state": state,
            "stage": first.map(|rank| quote(&rank.status.stage)),
            "report": has_report,
            "is_behind": self.is_behind,
            "problems": self.problems.iter().map(|problem| quote(problem)).collect::<Vec<_>>(),
            "warnings": self.warnings().iter().map(|warning| quote(warning)).collect::<Vec<_>>(),
            "stages": self.stages_json(state),
            "ranks": self.ranks.all().iter().map(rank_json).collect::<Vec<_>>(),
            "sets": self.games.json(),
            "games": self.games.newest(from),
            "next_game": self.games.feed.next(),
        })
    }

    /// What the updates of an on-policy run warn of, as its report does.
    fn warnings(&self) -> Vec<String> {
        let mut measures = UpdateMeasures::default();
        let curves = self.stages.iter().filter_map(|one| self.curves.get(&one.stage.folder));
        curves.for_each(|curves| curves.add_updates(&mut measures));
        let mut alarms = measures.alarms();
        alarms.truncate(MAX_PROBLEMS);
        alarms
    }

    fn stages_json(&self, state: RunState) -> Vec<Value> {
        let is_working = matches!(state, RunState::Running | RunState::Silent);
        let current =
            self.ranks.first().and_then(|rank| self.stages.iter().position(|one| one.stage.name == rank.status.stage));
        let stage_json = |(at, one): (usize, &StageView)| {
            let name = match &one.done {
                Some(_) => "done",
                None if state == RunState::Finished => "done",
                // Stages that measure go on after a stop, and are not finished by it.
                None if state == RunState::Stopped => {
                    if one.has_begun {
                        "stopped"
                    } else {
                        "left out"
                    }
                }
                None if current == Some(at) && is_working => "running",
                None if current == Some(at) || (one.has_begun && !is_working) => "interrupted",
                // A stage that leaves no `done.json` and is passed.
                None if one.has_begun && current.is_some_and(|current| at < current) => "done",
                None if one.has_begun => "running",
                None => "waiting",
            };
            let curves = self.curves.get(&one.stage.folder);
            let last = |number: &str| curves.and_then(|curves| curves.last(number));
            let done = one.done.as_ref();
            json!({
                "name": quote(&one.stage.name),
                "folder": one.stage.folder,
                "parts": one.stage.parts,
                "state": name,
                "seconds": done.and_then(StageDone::total),
                "seconds_by_part": done.map(|done| &done.seconds),
                "counts": done.map(|done| &done.counts),
                "resumed": done.is_some_and(|done| done.resumed),
                "expected_seconds": self.expected_seconds(&one.stage),
                "metrics": curves.and_then(Curves::version),
                "tokens_per_second": last("tokens_per_second"),
                "peak_memory_gib": last("peak_memory_gib"),
            })
        };
        self.stages.iter().enumerate().map(stage_json).collect()
    }

    /// The seconds that the last finished stage of the same kind took.
    fn expected_seconds(&self, stage: &Stage) -> Option<f64> {
        let alike = self.stages.iter().rev().filter(|one| one.stage.kind() == stage.kind());
        alike.filter_map(|one| one.done.as_ref()).find(|done| !done.resumed).and_then(StageDone::total)
    }

    /// The curves of the stage in a folder.
    pub(super) fn curves(&self, folder: &str) -> Option<Value> {
        self.curves.get(folder).map(Curves::json)
    }
}

/// The names of folders in a folder, as far as they are text, sorted.
///
/// # Errors
/// The folder cannot be read.
fn subfolders(run: &RunFolder) -> std::io::Result<Vec<String>> {
    let folders = run.files().entries("")?.into_iter().filter(|(_, kind)| *kind == EntryKind::Folder);
    Ok(folders.map(|(name, _)| name).collect())
}
