//! The loop: base → im → spag-1 … spag-k → evaluation → report.
//!
//! A stage reads the files of earlier stages and writes its own. `done.json` is written last and marks it as finished.

mod context;
mod evaluate;
mod folder;
mod games;
mod report;
mod stages;
mod train;

use std::sync::Arc;

use spag_dist::{LaunchEnv, ProcessGroup, Single};
use spag_io::Progress;

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::report::Report;

use context::{RankContext, RunContext, RunInputs};
use folder::{RunFolder, StageDone, StageFolder};

/// Runs the whole loop and returns the report.
///
/// Finished stages are skipped and an interrupted run resumes: finished games are kept, training continues from its last
/// checkpoint, and the final files equal those of an uninterrupted run.
///
/// # Errors
/// A folder that is in use or was made with other settings, inputs that cannot be read, and errors of the stages.
pub fn run(config: &RunConfig, progress: &mut dyn Progress) -> Result<Report> {
    let report = run_on(config, &LaunchEnv::single(), Arc::new(Single), progress)?;
    // Rank 0 always returns a report.
    report.ok_or_else(|| Error::DamagedRun { path: config.run_dir.clone(), message: "there is no report".into() })
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
) -> Result<Option<Report>> {
    let outcome = RankContext::new(env, group.clone(), config).and_then(|ranks| run_stages(config, &ranks, progress));
    if let Err(error) = &outcome {
        group.abort(&error.to_string());
    }
    outcome
}

fn run_stages(config: &RunConfig, ranks: &RankContext, progress: &mut dyn Progress) -> Result<Option<Report>> {
    // Fails early if the device cannot be used.
    config.device.open(ranks.env.local_rank)?;
    let folder = RunFolder::open(config, ranks)?;
    let inputs = RunInputs::load(config, progress)?;
    let run = RunContext { config, ranks, inputs: &inputs };
    let mut done = Vec::new();

    let base = folder.stage("base")?;
    done.push(unless_done(ranks, &base, progress, |_| stages::base(run, &base))?);
    let im = folder.stage("im")?;
    done.push(unless_done(ranks, &im, progress, |progress| stages::imitation(run, &im, progress))?);
    let mut current = im;
    for epoch in 1..=config.epochs {
        let stage = folder.stage(&format!("spag-{epoch}"))?;
        let self_play = |progress: &mut dyn Progress| stages::self_play(run, &current, &stage, progress);
        done.push(unless_done(ranks, &stage, progress, self_play)?);
        current = stage;
    }
    let eval = folder.stage("eval")?;
    done.push(unless_done(ranks, &eval, progress, |progress| evaluate::evaluate(run, &folder, &eval, progress))?);

    ranks.is_rank_0().then(|| report::write_report(config, &inputs, &folder, &done)).transpose()
}

/// Runs a stage unless it is finished.
fn unless_done(
    ranks: &RankContext,
    stage: &StageFolder,
    progress: &mut dyn Progress,
    work: impl FnOnce(&mut dyn Progress) -> Result<StageDone>,
) -> Result<StageDone> {
    if ranks.decide(|| Ok(stage.done()?.is_some()))? {
        progress.message(&format!("{}: done before", stage.name));
        return Ok(stage.done()?.unwrap_or_default());
    }
    let mut done = work(progress)?;
    ranks.on_rank_0(|| {
        done = stage.finish(std::mem::take(&mut done))?;
        Ok(())
    })?;
    Ok(done)
}
