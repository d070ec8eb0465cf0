//! Supervised fine-tuning: token-mean cross-entropy over the micro-batch.

use spag_rewards::SampleKind;

use super::{Loss, LossInput, LossValue, SampleCounts};
use crate::error::Result;
use crate::metrics::{Metric, MetricTensor};

const SFT: Metric = Metric::mean("sft");

/// −Σ ln p / number of predicted tokens, over all samples of the micro-batch together.
#[derive(Clone, Copy, Debug)]
pub struct Sft;

impl Loss for Sft {
    fn metrics(&self) -> &'static [Metric] {
        &[SFT]
    }

    fn divisor(&self, counts: SampleCounts, _: SampleKind) -> Option<usize> {
        Some(counts.predicted)
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        // ℓ is a mean over the labels, so ℓ·labels is the sum over the predicted tokens.
        let sums = (input.log_probs().neg()? * input.per_sample(|sample| sample.labels as f64)?)?;
        let loss = input.sum(&sums)?;
        let weight: f64 = input.samples().iter().map(|sample| sample.predicted as f64 / sample.divisor).sum();
        let mean = if weight > 0.0 { (&loss / weight)? } else { loss.clone() };
        Ok(LossValue { metrics: vec![MetricTensor { weight, ..SFT.of(mean) }], loss })
    }
}
