//! The loop: base → im → spag-1 … spag-k → evaluation → benchmarks → report.
//!
//! A stage reads the files of earlier stages and writes its own. `done.json` is written last and marks it as finished.

mod context;
mod controls;
mod ended;
mod endpoints;
mod folder;
mod games;
mod measure;
mod models;
mod pairings;
mod plan;
mod remaining;
mod report;
mod rounds;
mod run_games;
mod stage;
mod stage_folder;
mod stages;
mod status;
mod stop;
mod training;
mod words;

use std::sync::Arc;

use spag_dist::{LaunchEnv, ProcessGroup, Single};
use spag_io::Progress;
use spag_run::{Model, StageDone};

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::report::Report;

use context::{RankContext, RunContext, RunInputs};
use folder::LockedRun;
use remaining::Remaining;
use stage::{StageKind, StageWork};
use status::StatusProgress;

pub use controls::run_with_controls;
pub use ended::Ended;
pub use measure::{RunMeasure, measure_run};
pub use plan::{DiskPlan, PlannedStage, PlannedTraining, RunPlan, SAMPLES_PER_GAME, plan_run, plan_run_without};
pub use stages::{OnlineMemory, OnlineParts};

/// Runs the whole loop and returns the report, also if the run was stopped ([`Report::stopped`]).
///
/// Finished stages are skipped and an interrupted run resumes: finished games are kept, training continues from its last
/// checkpoint, and the final files equal those of an uninterrupted run.
///
/// # Errors
/// A folder that is in use or was made with other settings, inputs that cannot be read, and errors of the stages.
pub fn run(config: &RunConfig, progress: &mut dyn Progress) -> Result<Report> {
    let ended = run_on(config, &LaunchEnv::single(), Arc::new(Single), progress)?;
    // Rank 0 always returns a report.
    ended.report.ok_or_else(|| Error::DamagedRun { path: config.run_dir.clone(), message: "there is no report".into() })
}

/// As [`run`], on the ranks of a process group that share a file system. Rank 0 returns the report.
///
/// N ranks train like one process with N times the gradient accumulation steps.
///
/// # Errors
/// As [`run`], or a rank is lost. All ranks then end.
pub fn run_on(
    config: &RunConfig,
    env: &LaunchEnv,
    group: Arc<dyn ProcessGroup>,
    progress: &mut dyn Progress,
) -> Result<Ended> {
    let mut progress = StatusProgress::new(config, env, progress);
    let ranks = RankContext::new(env, group.clone(), config);
    let outcome = ranks.and_then(|ranks| run_stages(config, &ranks, &mut progress));
    progress.finish(&outcome);
    if let Err(error) = &outcome {
        group.abort(&error.to_string());
    }
    outcome
}

fn run_stages(config: &RunConfig, ranks: &RankContext, progress: &mut dyn Progress) -> Result<Ended> {
    // Before anything is written.
    ranks.on_rank_0(|| LockedRun::check(config))?;
    // Fails early if the device cannot be used.
    if let Some(note) = config.device.open(ranks.env.local_rank)?.take_note() {
        progress.message(&format!("note: {note}"));
    }
    let folder = LockedRun::open(config, ranks)?;
    let inputs = RunInputs::load(config, progress)?;
    let stages = stages::list(config);
    let mut left = Remaining::default();
    ranks.on_rank_0(|| {
        left = Remaining::new(plan::fitting_plan(config, &inputs, ranks.group.size())?.stages);
        folder.write_stages(&stages)?;
        inputs.words().map_or(Ok(()), |words| folder.write_words(words))
    })?;
    let (mut done, mut made, mut stopped) = (Vec::new(), Vec::new(), None);
    for (at, stage) in stages.iter().enumerate() {
        if stopped.is_some() && matches!(stage.kind, StageKind::Train(_)) {
            continue;
        }
        let run = RunContext { config, ranks, inputs: &inputs, made: &made };
        let end = if stopped.is_some() { StageEnd::Unfinished } else { StageEnd::Finished };
        match run_stage(run, &folder, (stage, &left.headline(at)), end, progress) {
            Ok(finished) => {
                finished.iter().for_each(|finished| left.finished(at, finished));
                done.extend(finished);
            }
            Err(error @ Error::Stopped { .. }) => {
                progress.message(&format!("{error}; measuring the models trained so far"));
                stopped = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        }
        if let StageKind::Train(model) = stage.kind {
            made.push(model);
            // The base model is the imitation model too.
            if model == Model::Base && config.imitation.source.is_none() {
                made.push(Model::Im);
            }
        }
    }
    let run = RunContext { config, ranks, inputs: &inputs, made: &made };
    let report = ranks
        .is_rank_0()
        .then(|| report::write_report(run, &folder, &done, stopped.as_ref().map(Error::to_string)))
        .transpose()?;
    Ok(Ended { report, stopped })
}

/// Whether a stage is finished after its call. After a stop it measures some of the models only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageEnd {
    Finished,
    Unfinished,
}

/// Runs a stage after its headline, unless it is finished. Returns its result if it has one.
fn run_stage(
    run: RunContext<'_>,
    folder: &LockedRun,
    (stage, headline): (&StageWork, &str),
    end: StageEnd,
    progress: &mut dyn Progress,
) -> Result<Option<StageDone>> {
    let own = folder.stage(&stage.name)?;
    // After a stop some models are missing, and what measures them knows.
    let check = || if end == StageEnd::Finished { stage.check_inputs() } else { Ok(()) };
    if stage.kind == StageKind::EvaluateFromRecords {
        run.ranks.on_rank_0(check)?;
        begin(run, headline, progress);
        let done = (stage.run)(run, &own, progress)?;
        let mut whole = None;
        run.ranks.on_rank_0(|| {
            whole = Some(own.add_seconds(done)?);
            Ok(())
        })?;
        return Ok(whole);
    }
    if run.ranks.decide(|| Ok(own.done()?.is_some()))? {
        progress.message(&format!("{}: done before", stage.name));
        return Ok(Some(own.done()?.unwrap_or_default()));
    }
    run.ranks.on_rank_0(check)?;
    begin(run, headline, progress);
    let mut done = StageDone { stage: stage.name.clone(), ..(stage.run)(run, &own, progress)? };
    if end == StageEnd::Finished {
        run.ranks.on_rank_0(|| {
            done = own.finish(std::mem::take(&mut done))?;
            Ok(())
        })?;
    }
    Ok(Some(done))
}

/// Says on rank 0, which knows the plan, that a stage begins.
fn begin(run: RunContext<'_>, headline: &str, progress: &mut dyn Progress) {
    if run.ranks.is_rank_0() {
        progress.message(headline);
    }
}
