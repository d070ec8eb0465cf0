//! Which samples each micro-batch of each step holds.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::config::{DataOrder, TrainConfig};

/// The plan of a run: known in full before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    samples: usize,
    batch: usize,
    /// Micro-batches of an epoch.
    per_epoch: usize,
    /// Micro-batches of a step.
    per_step: usize,
    /// Optimizer steps of the whole run.
    pub steps: usize,
    /// Optimizer steps of an epoch.
    pub steps_per_epoch: usize,
    order: DataOrder,
    seed: u64,
}

impl Plan {
    /// Counts steps as transformers 4.37 does: `max(1, micro-batches / accumulation)` a epoch, rounded down; the
    /// micro-batches left over at the end of an epoch go into the next one's first step.
    pub fn new(config: &TrainConfig, samples: usize) -> Self {
        Self::of_ranks(config, samples, 1)
    }

    /// The plan of `ranks` processes together: that of one process with as many micro-batches a step as all of them take.
    /// The micro-batch of number m in its step is that of rank m modulo `ranks`.
    pub fn of_ranks(config: &TrainConfig, samples: usize, ranks: usize) -> Self {
        let accumulated = config.gradient_accumulation_steps.saturating_mul(ranks.max(1));
        let per_epoch = samples.div_ceil(config.per_device_train_batch_size).max(1);
        let steps_per_epoch = (per_epoch / accumulated).max(1);
        let steps =
            config.max_steps.unwrap_or_else(|| (config.num_train_epochs * steps_per_epoch as f64).ceil() as usize);
        Self {
            samples,
            batch: config.per_device_train_batch_size,
            per_epoch,
            // An epoch of fewer micro-batches than one step's ends with a step all the same.
            per_step: accumulated.min(per_epoch),
            steps,
            steps_per_epoch,
            order: config.data_order,
            seed: config.seed,
        }
    }

    /// The order of the samples in an epoch (0 for the first).
    fn epoch(&self, epoch: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.samples).collect();
        if self.order == DataOrder::Shuffled {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
            rng.set_stream(epoch as u64 + 1);
            order.shuffle(&mut rng);
        }
        order
    }

    /// Passes over the data after so many steps, as a fraction.
    pub fn epochs_after(&self, step: usize) -> f64 {
        step as f64 / self.steps_per_epoch as f64
    }

    /// Micro-batches taken after so many steps.
    pub fn micro_batches_after(&self, step: usize) -> usize {
        step * self.per_step
    }

    /// All steps: each a list of micro-batches, each a list of sample indices.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Vec<usize>>> + use<> {
        self.iter_from(0)
    }

    /// The steps after the first `start`: the same as those of [`Plan::iter`].
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = Vec<Vec<usize>>> + use<> {
        let plan = *self;
        let mut cached: Option<(usize, Vec<usize>)> = None;
        (start..self.steps).map(move |step| {
            (0..plan.per_step)
                .map(|micro| {
                    let global = step * plan.per_step + micro;
                    let (epoch, within) = (global / plan.per_epoch, global % plan.per_epoch);
                    if cached.as_ref().is_none_or(|(e, _)| *e != epoch) {
                        cached = Some((epoch, plan.epoch(epoch)));
                    }
                    let order = cached.as_ref().map_or(&[][..], |(_, order)| order.as_slice());
                    let start = (within * plan.batch).min(order.len());
                    order[start..(start + plan.batch).min(order.len())].to_vec()
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
        let plan = Plan::new(&config(2, 2, 1.0, DataOrder::Sequential), 9);
        assert_eq!(plan.steps, 2);
        let steps: Vec<_> = plan.iter().collect();
        assert_eq!(steps, [vec![vec![0, 1], vec![2, 3]], vec![vec![4, 5], vec![6, 7]]]);
    }

    #[test]
    fn left_over_micro_batches_go_into_the_next_epoch() {
        let plan = Plan::new(&config(1, 2, 2.0, DataOrder::Sequential), 3);
        assert_eq!(plan.iter().collect::<Vec<_>>(), [vec![vec![0], vec![1]], vec![vec![2], vec![0]]]);
    }

    #[test]
    fn little_data_still_makes_a_step_an_epoch() {
        let plan = Plan::new(&config(2, 8, 2.0, DataOrder::Sequential), 3);
        assert_eq!(plan.iter().collect::<Vec<_>>(), [vec![vec![0, 1], vec![2]], vec![vec![0, 1], vec![2]]]);
    }

    #[test]
    fn ranks_together_have_the_plan_of_one_process() {
        let (two, one) = (config(2, 3, 2.0, DataOrder::Shuffled), config(2, 6, 2.0, DataOrder::Shuffled));
        assert_eq!(Plan::of_ranks(&two, 50, 2), Plan::new(&one, 50));
    }

    #[test]
    fn shuffles_hold_every_sample_once_and_differ_by_epoch_and_seed() {
        let run = |seed| {
            let config = TrainConfig { seed, ..config(4, 1, 2.0, DataOrder::Shuffled) };
            Plan::new(&config, 40).iter().flatten().flatten().collect::<Vec<usize>>()
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
    fn a_later_start_gives_the_same_steps() {
        let plan = Plan::new(&config(3, 2, 3.0, DataOrder::Shuffled), 20);
        let all: Vec<_> = plan.iter().collect();
        for start in 0..=all.len() {
            assert_eq!(plan.iter_from(start).collect::<Vec<_>>(), all[start..]);
        }
    }

    #[test]
    fn max_steps_overrides_epochs() {
        let config = TrainConfig { max_steps: Some(7), ..config(2, 1, 1.0, DataOrder::Sequential) };
        assert_eq!(Plan::new(&config, 4).iter().count(), 7);
    }
}
