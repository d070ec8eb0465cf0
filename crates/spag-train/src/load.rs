//! How evenly a training on files loads its ranks, without training.

use crate::config::TrainConfig;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::loss;
use crate::offline::OfflineRun;
use crate::packing::Packing;
use crate::passes::Pass;
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
        let packing = config.packing.unwrap_or_default();
        let layout = PassLayout { packing, most_tokens: config.most_tokens_of_pass() };
        let (run, loss) = (OfflineRun::new(data, config, ranks)?, loss::build(config));
        let (mut steps, mut rounds, mut busiest, mut tokens) = (0usize, 0, 0, 0);
        for micro_batches in run.sampler.iter_from(0) {
            let samples = run.samples(&micro_batches);
            let of_rank = |rank| samples.passes(&*loss, layout, (rank, ranks));
            let of_ranks: Vec<Vec<usize>> =
                (0..ranks).map(|rank| of_rank(rank).iter().map(|pass| rows(packing, pass)).collect()).collect();
            let of_step = of_ranks.first().map_or(0, Vec::len);
            for round in 0..of_step {
                busiest += of_ranks.iter().map(|rank| rank[round]).max().unwrap_or(0);
            }
            tokens += of_ranks.iter().flatten().sum::<usize>();
            rounds += of_step;
            steps += 1;
        }
        let mean = |sum: usize| sum as f64 / steps.max(1) as f64;
        Ok(Self {
            steps,
            passes: mean(rounds),
            tokens: mean(tokens),
            load: busiest as f64 * ranks as f64 / tokens.max(1) as f64,
        })
    }
}

/// Tokens that a pass computes.
fn rows(packing: Packing, pass: &Pass<'_>) -> usize {
    let trajectories: Vec<_> = pass.samples.iter().map(|sample| sample.trajectory).collect();
    if trajectories.is_empty() { 0 } else { packing.pack(&trajectories).0.len() }
}
