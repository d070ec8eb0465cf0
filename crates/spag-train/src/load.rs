//! How evenly a training on files loads its ranks, without training.

use crate::config::TrainConfig;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::offline::OfflineRun;
use crate::step_samples::PassLayout;

/// What the ranks of a training compute, over all of its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankLoad {
    /// Steps.
    pub steps: usize,
    /// Passes that each rank computes in a step, on average.
    pub passes: f64,
    /// Tokens that all ranks compute in a step, on average.
    pub tokens: f64,
    /// The computed tokens of the busiest rank over the mean rank's, of each round of passes, weighted by its tokens. 1 is even.
    pub load: f64,
}

impl RankLoad {
    /// Deals the samples of every step of a training to `ranks`, as [`run`](crate::run) does.
    ///
    /// # Errors
    /// [`Error::NoReference`](crate::Error::NoReference) if the loss reads ℓ_ref and the data have none.
    pub fn of(data: &Dataset, config: &TrainConfig, ranks: usize) -> Result<Self> {
        let (run, layout) = (OfflineRun::new(data, config, ranks)?, PassLayout::of(config));
        let (mut steps, mut rounds, mut busiest, mut all) = (0usize, 0, 0, 0);
        for micro_batches in run.sampler.iter_from(0) {
            let samples = run.samples(&micro_batches);
            for round in samples.plan(layout, ranks).rounds() {
                let tokens: Vec<usize> = round.iter().map(|pass| samples.tokens(layout.packing, pass)).collect();
                busiest += tokens.iter().max().unwrap_or(&0);
                all += tokens.iter().sum::<usize>();
                rounds += 1;
            }
            steps += 1;
        }
        let mean = |sum: usize| sum as f64 / steps.max(1) as f64;
        Ok(Self {
            steps,
            passes: mean(rounds),
            tokens: mean(all),
            load: busiest as f64 * ranks as f64 / all.max(1) as f64,
        })
    }
}
