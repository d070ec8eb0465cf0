//! The learning rate of each step, as transformers' schedulers compute it.

use crate::config::{FirstStepRate, SchedulerType, TrainConfig};
use crate::deepspeed::Scheduler;

/// The learning rates of a run.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Overrides everything but the peak as the first step's rate.
    deepspeed: Option<Scheduler>,
    first_step: FirstStepRate,
    kind: SchedulerType,
    peak: f64,
    warmup: usize,
    total: usize,
}

impl Schedule {
    /// The schedule of `config` over `total` optimizer steps.
    pub(crate) fn new(config: &TrainConfig, total: usize) -> Self {
        let warmup = match config.lr_scheduler_type {
            SchedulerType::Constant => 0,
            _ => Self::warmup_steps(config, total),
        };
        Self {
            deepspeed: None,
            first_step: config.deepspeed_first_step,
            kind: config.lr_scheduler_type,
            peak: config.learning_rate,
            warmup,
            total,
        }
    }

    /// The schedule of a DeepSpeed file. As in transformers, it replaces the flags'.
    pub(crate) fn of_deepspeed(self, scheduler: Scheduler) -> Self {
        Self { deepspeed: Some(scheduler), ..self }
    }

    /// Warm-up steps according to the flags, whatever the kind of schedule.
    pub(crate) fn warmup_steps(config: &TrainConfig, total: usize) -> usize {
        let by_ratio = (total as f64 * config.warmup_ratio).ceil() as usize;
        config.warmup_steps.filter(|steps| *steps > 0).unwrap_or(by_ratio)
    }

    /// The rate of step `step` (0 for the first). With warm-up the first step's rate is 0.
    ///
    /// transformers logs each step with the rate of the next one.
    pub(crate) fn rate(&self, step: usize) -> f64 {
        if let Some(scheduler) = &self.deepspeed {
            return match (self.first_step, step) {
                (FirstStepRate::Max, 0) => self.peak,
                _ => scheduler.rate(step as u64),
            };
        }
        if step < self.warmup {
            return self.peak * (step as f64 / self.warmup.max(1) as f64);
        }
        let decay = (self.total.saturating_sub(self.warmup)).max(1) as f64;
        let done = (step - self.warmup) as f64 / decay;
        let factor = match self.kind {
            SchedulerType::Linear => (self.total.saturating_sub(step)) as f64 / decay,
            // The half cycle of transformers: cos(π · 0.5 · 2 · progress).
            SchedulerType::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * 0.5 * 2.0 * done).cos()),
            SchedulerType::Constant | SchedulerType::ConstantWithWarmup => 1.0,
        };
        self.peak * factor.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: SchedulerType, warmup_ratio: f64) -> Schedule {
        let config =
            TrainConfig { lr_scheduler_type: kind, warmup_ratio, learning_rate: 1e-3, ..TrainConfig::default() };
        Schedule::new(&config, 12)
    }

    #[test]
    fn cosine_matches_transformers() {
        let s = schedule(SchedulerType::Cosine, 0.1);
        // Rates that transformers logged after steps 1, 2, 3, 7 and 12.
        for (step, want) in [(1, 5e-4), (2, 1e-3), (3, 0.0009755282581475768), (7, 5e-4), (12, 0.0)] {
            assert!((s.rate(step) - want).abs() < 1e-18, "{step}: {}", s.rate(step));
        }
        assert_eq!(s.rate(0), 0.0);
    }

    #[test]
    fn linear_decays_and_constant_does_not() {
        let s = schedule(SchedulerType::Linear, 0.0);
        assert_eq!((s.rate(0), s.rate(6), s.rate(12)), (1e-3, 5e-4, 0.0));
        let s = schedule(SchedulerType::Constant, 0.5);
        assert_eq!((s.rate(0), s.rate(11)), (1e-3, 1e-3));
        let s = schedule(SchedulerType::ConstantWithWarmup, 0.5);
        assert_eq!((s.rate(0), s.rate(3), s.rate(11)), (0.0, 5e-4, 1e-3));
    }
}
