//! The stages of the loop, a file each. A new stage is a file here and a line in [`list`].

mod base;
mod benchmarks;
mod evaluation;
mod imitation;
mod online;
mod self_play;

use spag_run::StageDone;

use super::context::RunContext;
use super::folder::StageFolder;
use super::games::{GameSet, Note};
use super::run_games::OpenGame;
use super::stage::StageWork;
use crate::config::RunConfig;

pub(super) use benchmarks::SCORES;
pub(super) use evaluation::EXACT;
pub(super) use imitation::SOURCES;
pub use online::{OnlineMemory, OnlineParts};

/// The stages of a run in order: base → im → spag-1 … spag-k → eval → benchmarks.
pub(super) fn list(config: &RunConfig) -> Vec<StageWork> {
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

/// The part of a game of a stage's games, on the words of the training, in the file of episodes of `folder`. `part` names their
/// seed.
fn stage_games<'a>(
    run: RunContext<'a>,
    game: &'a OpenGame,
    folder: &StageFolder,
    part: &str,
    count: Option<usize>,
    players: String,
    done: &mut StageDone,
) -> GameSet<'a> {
    let words = &game.words.training;
    let seed = run.seed(folder, part, done);
    let count = game.part_of(run.config, count.unwrap_or(words.len()));
    GameSet { game, path: folder.episodes(), words, count, seed, players, note: Note::Wins }
}
