//! Which samples each micro-batch of each step holds.

use std::ops::Range;
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::config::{DataOrder, TrainConfig};

/// The samples of every micro-batch of a run. They follow from settings and seed, so a run resumes at any step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchSampler {
    samples: usize,
    /// Runs of samples that stay together in every order; `None` if each is by itself.
    games: Option<Arc<[Range<usize>]>>,
    batch: usize,
    /// Micro-batches of an epoch.
    per_epoch: usize,
    /// Micro-batches of a step.
    per_step: usize,
    /// Optimizer steps of the whole run.
    pub(crate) steps: usize,
    /// Optimizer steps of an epoch.
    pub(crate) steps_per_epoch: usize,
    order: DataOrder,
    seed: u64,
}

impl BatchSampler {
    /// The sampler of `ranks` processes: that of one process with as many micro-batches a step as all ranks together.
    /// Micro-batch m of a step belongs to rank m modulo `ranks`.
    ///
    /// Counts steps as transformers 4.37 does: `max(1, micro-batches / accumulation)` an epoch, rounded down. The
    /// micro-batches left over at the end of an epoch belong to the next epoch's first step.
    pub(crate) fn new(config: &TrainConfig, samples: usize, ranks: usize) -> Self {
        let accumulated = config.gradient_accumulation_steps.saturating_mul(ranks.max(1));
        let per_epoch = samples.div_ceil(config.per_device_train_batch_size).max(1);
        let steps_per_epoch = (per_epoch / accumulated).max(1);
        let steps =
            config.max_steps.unwrap_or_else(|| (config.num_train_epochs * steps_per_epoch as f64).ceil() as usize);
        Self {
            samples,
            games: None,
            batch: config.per_device_train_batch_size,
            per_epoch,
            // An epoch with fewer micro-batches than a step still ends with a step.
            per_step: accumulated.min(per_epoch),
            steps,
            steps_per_epoch,
            order: config.data_order,
            seed: config.seed,
        }
    }

    /// The same sampler, whose orders keep runs of samples together. The runs cover all samples.
    pub(crate) fn with_games(self, games: Vec<Range<usize>>) -> Self {
        Self { games: Some(games.into()), ..self }
    }

    /// The order of the samples in an epoch (0 for the first).
    fn epoch(&self, epoch: usize) -> Vec<usize> {
        let mut order: Vec<Range<usize>> = match &self.games {
            Some(games) => games.to_vec(),
            None => (0..self.samples).map(|sample| sample..sample + 1).collect(),
        };
        if self.order == DataOrder::Shuffled {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
            rng.set_stream(epoch as u64 + 1);
            order.shuffle(&mut rng);
        }
        order.into_iter().flatten().collect()
    }

    /// Passes over the data after `step` steps, as a fraction.
    pub(crate) fn epochs_after(&self, step: usize) -> f64 {
        step as f64 / self.steps_per_epoch as f64
    }

    /// Micro-batches read after `step` steps.
    pub(crate) fn micro_batches_after(&self, step: usize) -> usize {
        step.saturating_mul(self.per_step)
    }

    /// The steps from `start` on: each a list of micro-batches, each a list of sample indices.
    pub(crate) fn iter_from(&self, start: usize) -> impl Iterator<Item = Vec<Vec<usize>>> + use<> {
        let sampler = self.clone();
        let mut cached: Option<(usize, Vec<usize>)> = None;
        (start..self.steps).map(move |step| {
            (0..sampler.per_step)
                .map(|micro| {
                    let global = step.saturating_mul(sampler.per_step).saturating_add(micro);
                    let (epoch, within) = (global / sampler.per_epoch, global % sampler.per_epoch);
                    if cached.as_ref().is_none_or(|(e, _)| *e != epoch) {
                        cached = Some((epoch, sampler.epoch(epoch)));
                    }
                    let order = cached.as_ref().map_or(&[][..], |(_, order)| order.as_slice());
                    let start = (within * sampler.batch).min(order.len());
                    order[start..(start + sampler.batch).min(order.len())].to_vec()
                })
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(batch: usize, accumulation: usize, epochs: f64, order: DataOrder) -> TrainConfig {
        TrainConfig {
            per_device_train_batch_size: batch,
            gradient_accumulation_steps: accumulation,
            num_train_epochs: epochs,
            data_order: order,
            ..TrainConfig::default()
        }
    }

    #[test]
    fn sequential_steps_cover_the_data_in_order() {
        let sampler = BatchSampler::new(&config(2, 2, 1.0, DataOrder::Sequential), 9, 1);
        assert_eq!(sampler.steps, 2);
        let steps: Vec<_> = sampler.iter_from(0).collect();
        assert_eq!(steps, [vec![vec![0, 1], vec![2, 3]], vec![vec![4, 5], vec![6, 7]]]);
    }

    #[test]
    fn games_stay_together_in_every_epoch() {
        let games = vec![0..3, 3..4, 4..9, 9..10];
        let config = config(2, 1, 2.0, DataOrder::Shuffled);
        let apart = BatchSampler::new(&config, 10, 1);
        let sampler = apart.clone().with_games(games.clone());
        let orders: Vec<Vec<usize>> = (0..6).map(|epoch| sampler.epoch(epoch)).collect();
        for order in &orders {
            for game in &games {
                assert!(order.windows(game.len()).any(|run| run.iter().copied().eq(game.clone())), "{order:?}");
            }
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
        // The order of samples by themselves is as without games.
        let singles = apart.clone().with_games((0..10).map(|sample| sample..sample + 1).collect());
        assert_eq!(
            (0..6).map(|epoch| singles.epoch(epoch)).collect::<Vec<_>>(),
            (0..6).map(|e| apart.epoch(e)).collect::<Vec<_>>()
        );
        // A run that resumes goes on in the same order.
        let all: Vec<_> = sampler.iter_from(0).collect();
        assert_eq!(sampler.iter_from(4).collect::<Vec<_>>(), all[4..]);
    }

    #[test]
    fn leftover_micro_batches_start_the_next_epoch() {
        let sampler = BatchSampler::new(&config(1, 2, 2.0, DataOrder::Sequential), 3, 1);
        assert_eq!(sampler.iter_from(0).collect::<Vec<_>>(), [vec![vec![0], vec![1]], vec![vec![2], vec![0]]]);
    }

    #[test]
    fn short_epoch_still_has_a_step() {
        let sampler = BatchSampler::new(&config(2, 8, 2.0, DataOrder::Sequential), 3, 1);
        assert_eq!(sampler.iter_from(0).collect::<Vec<_>>(), [vec![vec![0, 1], vec![2]], vec![vec![0, 1], vec![2]]]);
    }

    #[test]
    fn ranks_sample_what_one_process_samples() {
        let (two, one) = (config(2, 3, 2.0, DataOrder::Shuffled), config(2, 6, 2.0, DataOrder::Shuffled));
        assert_eq!(BatchSampler::new(&two, 50, 2), BatchSampler::new(&one, 50, 1));
    }

    #[test]
    fn shuffle_has_every_sample_once_and_depends_on_epoch_and_seed() {
        let run = |seed| {
            let config = TrainConfig { seed, ..config(4, 1, 2.0, DataOrder::Shuffled) };
            BatchSampler::new(&config, 40, 1).iter_from(0).flatten().flatten().collect::<Vec<usize>>()
        };
        let (a, b) = (run(1), run(2));
        let (first, second) = a.split_at(40);
        for epoch in [first, second, &b[..40]] {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..40).collect::<Vec<_>>());
        }
        assert!(first != second && first != &b[..40]);
        assert_eq!(a, run(1));
    }

    #[test]
    fn iter_from_skips_earlier_steps() {
        let sampler = BatchSampler::new(&config(3, 2, 3.0, DataOrder::Shuffled), 20, 1);
        let all: Vec<_> = sampler.iter_from(0).collect();
        for start in 0..=all.len() {
            assert_eq!(sampler.iter_from(start).collect::<Vec<_>>(), all[start..]);
        }
    }

    #[test]
    fn max_steps_overrides_epochs() {
        let config = TrainConfig { max_steps: Some(7), ..config(2, 1, 1.0, DataOrder::Sequential) };
        assert_eq!(BatchSampler::new(&config, 4, 1).iter_from(0).count(), 7);
    }
}
