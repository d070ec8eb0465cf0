//! Supervised fine-tuning: token-mean cross-entropy over the micro-batch.

use candle_core::Result;

use super::{Evaluated, EvaluatedTensors, Loss, Parts, Scored, ScoredTensors};

/// −Σ ln p / number of predicted tokens, over all samples of the micro-batch together.
#[derive(Clone, Copy, Debug)]
pub struct Sft;

impl Loss for Sft {
    fn evaluate(&self, batch: &[Scored]) -> Evaluated {
        let tokens = batch.iter().map(|s| s.predicted).sum::<usize>().max(1) as f64;
        // ℓ is a mean over the labels, so ℓ·labels is the sum over the predicted tokens.
        let loss = -batch.iter().map(|s| s.log_prob * s.labels as f64).sum::<f64>() / tokens;
        let gradient = batch.iter().map(|s| -(s.labels as f64) / tokens).collect();
        Evaluated { loss, gradient, parts: Parts { sft: Some(loss), ..Parts::default() } }
    }

    fn evaluate_tensors(&self, batch: &ScoredTensors) -> Result<EvaluatedTensors> {
        let gradient = (&batch.labels / -(batch.predicted.max(1) as f64))?;
        let loss = (&gradient * &batch.log_prob)?.sum_all()?;
        EvaluatedTensors::new(gradient, loss.clone(), [None, Some(loss), None, None, None, None, None])
    }
}
