//! Supervised fine-tuning: token-mean cross-entropy over the micro-batch.

use super::{Loss, LossInput, LossValue, divide};
use crate::error::Result;
use crate::metrics::Metric;

const SFT: Metric = Metric::mean("sft");

/// −Σ ln p / number of predicted tokens, over all samples of the micro-batch together.
#[derive(Clone, Copy, Debug)]
pub struct Sft;

impl Loss for Sft {
    fn metrics(&self) -> &'static [Metric] {
        &[SFT]
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let tokens = input.samples().iter().map(|sample| sample.predicted).sum();
        // ℓ is a mean over the labels, so ℓ·labels is the sum over the predicted tokens.
        let sums = (input.log_probs() * input.per_sample(|sample| sample.labels as f64)?)?;
        let loss = divide(&sums.sum_all()?.neg()?, tokens)?;
        Ok(LossValue { metrics: vec![(SFT, loss.clone())], loss })
    }
}
