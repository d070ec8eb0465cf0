//! The control arms of a run: further runs in its folder, whose last models answer its benchmarks.

use std::path::PathBuf;
use std::sync::Arc;

use spag_dist::{LaunchEnv, ProcessGroup};
use spag_io::{Progress, write_json_atomically};
use spag_run::{Model, files};

use super::context::RankContext;
use super::stage_folder::{StageFolder, read_run_json};
use super::{Ended, run_on};
use crate::config::{ControlArm, RunConfig};
use crate::error::{Error, Result};

/// As [`run_on`], then runs the control arms in the run's folder and adds their scores to its benchmarks and its report. A run that was
/// stopped has no arms; an arm that is stopped is left out, and the end says why.
///
/// # Errors
/// As [`run_on`], and a run that can have no controls ([`RunConfig::check_controls`]).
pub fn run_with_controls(
    config: &RunConfig,
    env: &LaunchEnv,
    group: Arc<dyn ProcessGroup>,
    progress: &mut dyn Progress,
) -> Result<Ended> {
    config.check_controls()?;
    let ended = run_on(config, env, Arc::clone(&group), progress)?;
    if ended.stopped.is_some() {
        return Ok(ended);
    }
    let ranks = RankContext::new(env, Arc::clone(&group), config)?;
    let rows_file = config.run_dir.join(files::CONTROLS).join(files::CONTROL_ROWS);
    ranks.on_rank_0(|| match read_run_json::<Vec<usize>>(&rows_file)? {
        Some(_) => Ok(()),
        None => {
            std::fs::create_dir_all(config.run_dir.join(files::CONTROLS))
                .map_err(Error::io("create the folder of controls in", &config.run_dir))?;
            Ok(write_json_atomically(&rows_file, &rows_of_rounds(config, group.size())?)?)
        }
    })?;
    let rows: Vec<usize> = read_run_json(&rows_file)?.unwrap_or_default();
    let mut stopped = None;
    for arm in ControlArm::ALL {
        progress.message(&format!("control {}: {}", arm.name(), arm.title()));
        let of_arm = run_on(&config.arm(arm, &rows), env, Arc::clone(&group), progress)?;
        stopped = stopped.or(of_arm.stopped);
    }
    let ended = run_on(config, env, group, progress)?;
    Ok(Ended { stopped: stopped.or(ended.stopped), ..ended })
}

/// The rows that make a round of general text as long as the run's: as many samples, or in an on-policy run those of as many optimizer
/// steps.
fn rows_of_rounds(config: &RunConfig, ranks: usize) -> Result<Vec<usize>> {
    let of_round = |epoch: usize| {
        if let Some(online) = &config.online {
            let steps = online.part(epoch).len() * online.minibatches * online.ppo_epochs;
            let train = &config.train.config;
            let batch = train.per_device_train_batch_size.saturating_mul(train.gradient_accumulation_steps);
            return Ok(steps.saturating_mul(batch).saturating_mul(ranks).max(1));
        }
        let name = Model::Spag(epoch).stage();
        let stage = StageFolder::new(config.run_dir.join(&name), &name);
        let samples = stage.done()?.and_then(|done| done.counts.get("samples").copied());
        samples.and_then(|samples| usize::try_from(samples).ok()).ok_or_else(|| Error::DamagedRun {
            path: stage.dir,
            message: "it does not say how many samples it had".to_owned(),
        })
    };
    (1..=config.epochs).map(of_round).collect()
}

/// The last models of the control arms that are finished, with their names.
pub(super) fn finished_arms(config: &RunConfig) -> Result<Vec<(String, PathBuf)>> {
    let last = Model::Spag(config.epochs);
    let mut finished = Vec::new();
    for arm in ControlArm::ALL {
        let stage = StageFolder::new(config.arm_dir(arm).join(last.stage()), &last.stage());
        if stage.done()?.is_some() {
            finished.push((arm.name().to_owned(), stage.model()));
        }
    }
    Ok(finished)
}
