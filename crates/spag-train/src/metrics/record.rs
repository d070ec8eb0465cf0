//! The lines of `metrics.jsonl`.

use serde::Serialize;

use super::MetricValues;

/// A line of `metrics.jsonl` about the steps since the line before. Made by the trainer; read by reports and people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Optimizer steps taken, this one included.
    pub step: usize,
    /// Passes over the data so far, as a fraction.
    pub epoch: f64,
    /// Mean loss of the steps since the last line, without skipped ones; `null` in the file if all were skipped.
    pub loss: f64,
    /// Learning rate after the step, as transformers logs it.
    pub learning_rate: f64,
    /// Global norm of the step's gradients before clipping.
    pub grad_norm: f64,
    /// The loss's metrics, over the same steps.
    #[serde(flatten)]
    pub metrics: MetricValues,
    /// Tokens trained on per second, without the time of saving and evaluation.
    pub tokens_per_second: f64,
    /// Tokens that the step computed, of those of its samples; absent if it computed all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed_share: Option<f64>,
    /// The computed tokens of the busiest rank over those of the mean one, which the others wait for: of each round of passes, weighted by
    /// its tokens. 1 is even; absent if there is one rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_load: Option<f64>,
    /// Floating-point operations per second in units of 10¹², counted as 6 · parameters · tokens of the samples:
    /// recomputation and attention scores are not counted.
    pub model_tflops: f64,
    /// Peak memory in GiB; absent if the system does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_gib: Option<f64>,
    /// Steps skipped so far because loss or gradients were not finite.
    #[serde(skip_serializing_if = "spag_io::is_default")]
    pub skipped_steps: usize,
}

impl Record {
    /// Every number of the line by its name, except the step.
    pub(crate) fn named(&self) -> Vec<(&str, f64)> {
        let own = [
            ("epoch", Some(self.epoch)),
            ("loss", Some(self.loss)),
            ("learning_rate", Some(self.learning_rate)),
            ("grad_norm", Some(self.grad_norm)),
            ("tokens_per_second", Some(self.tokens_per_second)),
            ("computed_share", self.computed_share),
            ("rank_load", self.rank_load),
            ("model_tflops", Some(self.model_tflops)),
            ("peak_memory_gib", self.peak_memory_gib),
            ("skipped_steps", Some(self.skipped_steps as f64)),
        ];
        own.into_iter().filter_map(|(name, value)| Some((name, value?))).chain(self.metrics.iter()).collect()
    }
}

/// A line of `metrics.jsonl` about an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EvalRecord {
    /// Optimizer steps taken before it.
    pub step: usize,
    /// Passes over the training data so far, as a fraction.
    pub epoch: f64,
    /// The method's loss on the evaluation data: of each micro-batch, averaged over its samples.
    pub eval_loss: f64,
    /// Samples evaluated.
    pub eval_samples: usize,
    /// Wall time of the evaluation, in seconds.
    pub eval_runtime: f64,
}
