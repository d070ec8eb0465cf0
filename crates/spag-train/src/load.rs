//! How evenly a training loads its ranks, without training: its samples are dealt as its steps deal them.

use crate::batch_sampler::BatchSampler;
use crate::config::{DataOrder, TrainConfig};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::offline::OfflineRun;
use crate::passes::PassPlan;
use crate::step_samples::PassLayout;

/// What the ranks of a training compute in a step, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankLoad {
    /// Steps that were dealt.
    pub steps: usize,
    /// Passes that each rank computes in a step.
    pub passes: f64,
    /// Tokens that all ranks compute in a step.
    pub tokens: f64,
    /// The length of the sample that a token is of: that of long samples, which have more tokens, counts more.
    pub context: f64,
    /// The computed tokens of the busiest rank over the mean rank's, of each round of passes, weighted by its tokens. 1 is even.
    pub load: f64,
}

impl RankLoad {
    /// Deals the samples of the first `most` steps of a training to `ranks`, as [`run`](crate::run) does.
    ///
    /// # Errors
    /// [`Error::NoReference`](crate::Error::NoReference) if the loss reads ℓ_ref and the data have none.
    pub fn of(data: &Dataset, config: &TrainConfig, ranks: usize, most: usize) -> Result<Self> {
        let (run, layout) = (OfflineRun::new(data, config, ranks)?, PassLayout::of(config));
        let mut dealt = Dealt::default();
        for micro_batches in run.sampler.iter_from(0).take(most) {
            let samples = run.samples(&micro_batches);
            dealt.add(&samples.plan(layout, ranks), |pass| samples.tokens(layout.packing, pass));
        }
        Ok(dealt.load(ranks, data.samples().iter().map(|sample| layout.packing.computed(sample).len())))
    }

    /// The same for samples of which only the lengths are known: none begins like another, and they are shuffled.
    pub fn of_lengths(lengths: &[usize], config: &TrainConfig, ranks: usize, most: usize) -> Self {
        let config = TrainConfig { data_order: DataOrder::Shuffled, ..config.clone() };
        let (sampler, most_tokens) =
            (BatchSampler::new(&config, lengths.len(), ranks), PassLayout::of(&config).most_tokens);
        let mut dealt = Dealt::default();
        for micro_batches in sampler.iter_from(0).take(most) {
            let own: Vec<usize> = micro_batches.iter().flatten().map(|at| lengths[*at]).collect();
            let mut end = 0;
            let ranges = micro_batches.iter().map(|micro_batch| {
                end += micro_batch.len();
                end - micro_batch.len()..end
            });
            let plan = match most_tokens {
                Some(most) => PassPlan::by_lengths(&own, most, ranks),
                None => PassPlan::of_micro_batches(ranges, ranks),
            };
            dealt.add(&plan, |pass| pass.iter().map(|at| own[*at]).sum());
        }
        dealt.load(ranks, lengths.iter().copied())
    }
}

/// Sums over steps.
#[derive(Default)]
struct Dealt {
    steps: usize,
    rounds: usize,
    /// Tokens of the longest pass of each round.
    busiest: usize,
    all: usize,
}

impl Dealt {
    fn add(&mut self, plan: &PassPlan, tokens: impl Fn(&[usize]) -> usize) {
        for round in plan.rounds() {
            let tokens: Vec<usize> = round.iter().map(|pass| tokens(pass)).collect();
            self.busiest += tokens.iter().max().unwrap_or(&0);
            self.all += tokens.iter().sum::<usize>();
        }
        self.rounds += plan.rounds().len();
        self.steps += 1;
    }

    fn load(self, ranks: usize, lengths: impl Iterator<Item = usize>) -> RankLoad {
        let mean = |sum: usize| sum as f64 / self.steps.max(1) as f64;
        let square =
            |(sum, squares): (f64, f64), length: usize| (sum + length as f64, squares + (length as f64).powi(2));
        let (sum, squares) = lengths.fold((0.0, 0.0), square);
        RankLoad {
            steps: self.steps,
            passes: mean(self.rounds),
            tokens: mean(self.all),
            context: squares / f64::max(sum, 1.0),
            load: self.busiest as f64 * ranks as f64 / self.all.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight samples of two lengths, two a micro-batch, on two ranks: two steps.
    #[test]
    fn lengths_are_dealt_as_samples_are() {
        let lengths = [100, 300, 100, 300, 100, 300, 100, 300];
        let config = TrainConfig {
            per_device_train_batch_size: 2,
            max_length: 400,
            num_train_epochs: 1.0,
            ..TrainConfig::default()
        };
        let by_tokens = RankLoad::of_lengths(&lengths, &config, 2, 9);
        assert_eq!((by_tokens.steps, by_tokens.tokens, by_tokens.context), (2, 800.0, 250.0));
        let in_turn = TrainConfig { max_tokens_per_pass: Some(0), ..config.clone() };
        let in_turn = RankLoad::of_lengths(&lengths, &in_turn, 2, 9);
        assert!(in_turn.load >= by_tokens.load && by_tokens.load >= 1.0, "{in_turn:?} {by_tokens:?}");
        // Two passes of 200 tokens, or one of 400.
        let many = TrainConfig { per_device_train_batch_size: 1, gradient_accumulation_steps: 2, ..config };
        let of = |most| {
            let config = TrainConfig { max_tokens_per_pass: Some(most), ..many.clone() };
            RankLoad::of_lengths(&[100; 8], &config, 2, 1)
        };
        assert_eq!([of(0), of(400)].map(|load| (load.steps, load.passes, load.load)), [(1, 2.0, 1.0), (1, 1.0, 1.0)]);
    }
}
