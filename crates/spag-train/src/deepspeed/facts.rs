//! What a DeepSpeed file has to agree with.

use crate::config::TrainConfig;
use crate::schedule::Schedule;

/// The run of a DeepSpeed file: its values fill in `"auto"`, and given values have to agree with them.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    /// The flags.
    pub config: &'a TrainConfig,
    /// Ranks in all.
    pub world_size: usize,
    /// Optimizer steps of the whole run.
    pub total_steps: usize,
}

impl RunFacts<'_> {
    /// Samples of an optimizer step over all ranks.
    pub(super) fn train_batch_size(&self) -> u64 {
        let factors =
            [self.config.per_device_train_batch_size, self.config.gradient_accumulation_steps, self.world_size];
        factors.into_iter().fold(1, |product, factor| product.saturating_mul(factor as u64))
    }

    pub(super) fn warmup_steps(&self) -> u64 {
        Schedule::warmup_steps(self.config, self.total_steps) as u64
    }
}
