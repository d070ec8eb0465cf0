//! The stages of the loop, a file each. A new stage is a file here and a line in [`list`].

mod base;
mod benchmarks;
mod evaluation;
mod general_text;
mod imitation;
mod online;
mod self_play;

use super::stage::StageWork;
use crate::config::RunConfig;

pub use online::{OnlineMemory, OnlineParts};

/// The stages of a run in order: base → im → spag-1 … spag-k → eval → benchmarks.
pub(super) fn list(config: &RunConfig) -> Vec<StageWork> {
    let mut stages = vec![base::stage(config)];
    if !config.imitation.source.is_none() {
        stages.push(imitation::stage(config));
    }
    stages.extend((1..=config.epochs).map(|epoch| match (&config.online, config.sft.alone.get(epoch - 1)) {
        (Some(settings), _) => online::stage(config, settings, epoch),
        (None, Some(rows)) => general_text::stage(config, epoch, *rows),
        (None, None) => self_play::stage(config, epoch),
    }));
    stages.push(evaluation::stage(config));
    stages.extend(config.benchmarks.as_ref().map(|benchmarks| benchmarks::stage(config, benchmarks)));
    stages
}
