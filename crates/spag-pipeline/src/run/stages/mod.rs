//! The stages of the loop, a file each. A new stage is a file here and a line in [`list`].

mod base;
mod benchmarks;
mod evaluation;
mod imitation;
mod online;
mod self_play;

use super::context::RunContext;
use super::folder::{StageDone, StageFolder};
use super::games::{GameSet, Note};
use super::stage::Stage;
use crate::config::RunConfig;

pub(super) use benchmarks::{FOLDER as BENCHMARKS, SCORES};
pub(super) use evaluation::{EVALUATION, EXACT};
pub(super) use imitation::SOURCES;

/// The stages of a run in order: base → im → spag-1 … spag-k → eval → benchmarks.
pub(super) fn list(config: &RunConfig) -> Vec<Stage> {
    let mut stages = vec![base::stage(config)];
    if !config.imitation.source.is_none() {
        stages.push(imitation::stage(config));
    }
    stages.extend((1..=config.epochs).map(|epoch| match &config.online {
        Some(settings) => online::stage(config, settings, epoch),
        None => self_play::stage(config, epoch),
    }));
    stages.push(evaluation::stage(config));
    stages.extend(config.benchmarks.as_ref().map(|benchmarks| benchmarks::stage(config, benchmarks)));
    stages
}

/// The games of a stage on the words of the training, in its file of episodes. `part` names their seed.
fn stage_games<'a>(
    run: RunContext<'a>,
    stage: &StageFolder,
    part: &str,
    count: Option<usize>,
    players: String,
    done: &mut StageDone,
) -> GameSet<'a> {
    let words = &run.inputs.words.training;
    let seed = run.seed(stage, part, done);
    GameSet { path: stage.episodes(), words, count: count.unwrap_or(words.len()), seed, players, note: Note::Wins }
}
