//! The record of steps that several learners took, each on its part of a batch.

use crate::learner::StepRecord;
use crate::log_prob_gap::LogProbGap;
use crate::metrics::{Metric, MetricValues, Reduction};

impl StepRecord {
    /// One record of the steps of several learners, each with the number of its samples; `None` if there are none. Losses and metrics
    /// that are means are weighted by samples, as those of one learner with all samples would be. Tokens are added, and the gradient norm,
    /// the load of ranks and the gap are the largest. Step and learning rate are those of the first.
    pub fn joined(metrics: &[Metric], steps: &[(StepRecord, f64)]) -> Option<Self> {
        let (first, _) = steps.first()?;
        let gap = |gap: LogProbGap, (step, _): &(Self, f64)| gap.and(&step.log_prob_gap);
        Some(Self {
            step: first.step,
            loss: Reduction::Mean.of(steps.iter().map(|(step, samples)| (step.loss, *samples)))?,
            metrics: MetricValues::of_steps(metrics, steps.iter().map(|(step, samples)| (&step.metrics, *samples))),
            grad_norm: steps.iter().map(|(step, _)| step.grad_norm).fold(0.0, f64::max),
            learning_rate: first.learning_rate,
            tokens: steps.iter().map(|(step, _)| step.tokens).sum(),
            computed_tokens: steps.iter().map(|(step, _)| step.computed_tokens).sum(),
            rank_load: steps.iter().map(|(step, _)| step.rank_load).fold(0.0, f64::max),
            skipped: steps.iter().any(|(step, _)| step.skipped),
            log_prob_gap: steps.iter().fold(LogProbGap::default(), gap),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_and_gaps_and_norms_are_the_largest() {
        let metrics = [Metric::mean("share"), Metric::max("ratio")];
        let step = |step, loss, share, ratio, gap| {
            let values: MetricValues = metrics.into_iter().zip([share, ratio]).collect();
            let log_prob_gap = LogProbGap { max: gap, sum: gap, tokens: 4 };
            let record = StepRecord {
                step,
                loss,
                metrics: values,
                grad_norm: loss.abs(),
                learning_rate: 0.1,
                tokens: 10,
                computed_tokens: 8,
                rank_load: 1.0,
                skipped: false,
                log_prob_gap,
            };
            (record, step as f64)
        };
        let of = |steps: &[(StepRecord, f64)]| StepRecord::joined(&metrics, steps);
        let (one, other) = (step(1, -2.0, 0.5, 3.0, 0.25), step(3, 2.0, 0.1, 2.0, 0.0));
        let both = of(&[one.clone(), other]).unwrap();
        // (−2 · 1 + 2 · 3) / 4, and (0.5 · 1 + 0.1 · 3) / 4.
        assert_eq!((both.loss, both.step, both.tokens, both.computed_tokens), (1.0, 1, 20, 16));
        assert!((both.metrics.get("share").unwrap() - 0.2).abs() < 1e-12);
        assert_eq!((both.metrics.get("ratio"), both.grad_norm), (Some(3.0), 2.0));
        assert_eq!(both.log_prob_gap, LogProbGap { max: 0.25, sum: 0.25, tokens: 8 });
        assert_eq!((of(std::slice::from_ref(&one)), of(&[])), (Some(one.0), None));
    }
}
