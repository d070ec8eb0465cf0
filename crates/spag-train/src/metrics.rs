//! The line of `metrics.jsonl` that a logged step writes.

use serde::Serialize;

use crate::loss::Parts;

/// One line of `metrics.jsonl`. Made by the trainer; read by reports and by people.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Optimizer steps taken, this one included.
    pub step: usize,
    /// Passes over the data so far, as a fraction.
    pub epoch: f64,
    /// Mean loss of the steps since the last line.
    pub loss: f64,
    /// Learning rate after the step, as transformers logs it.
    pub learning_rate: f64,
    /// Global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// What the last step's loss is made of.
    #[serde(flatten)]
    pub parts: Parts,
    /// Tokens read per second since the last line.
    pub tokens_per_second: f64,
    /// Steps skipped so far because loss or gradients were not finite.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_steps: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The mean of the parts of several micro-batches, each over those that have it.
pub(crate) fn mean_parts(all: &[Parts]) -> Parts {
    let mean = |get: fn(&Parts) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(get).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    Parts {
        policy: mean(|p| p.policy),
        sft: mean(|p| p.sft),
        kl: mean(|p| p.kl),
        importance_ratio: mean(|p| p.importance_ratio),
        clipped_fraction: mean(|p| p.clipped_fraction),
    }
}
