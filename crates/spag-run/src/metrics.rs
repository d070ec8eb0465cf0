//! The rows of `metrics.jsonl`.

use serde::Deserialize;

/// What a report reads of a row about a training step. Numbers that are not finite are written as null, and a loss has only some of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct TrainingRow {
    /// The optimizer step, from 1.
    pub step: u64,
    /// The loss of the batch.
    pub loss: Option<f64>,
    /// The divergence from the reference model.
    pub kl: Option<f64>,
    /// The mean importance ratio.
    pub importance_ratio_mean: Option<f64>,
    /// The largest importance ratio.
    pub importance_ratio_max: Option<f64>,
    /// The share of tokens whose importance ratio was clipped.
    pub clipped_fraction: Option<f64>,
    /// The gradient norm before clipping.
    pub grad_norm: Option<f64>,
}

/// The key of a measure of one of a run's games: its own if it is the only game.
pub fn measure_of(folder: Option<&str>, key: &str) -> String {
    match folder {
        Some(folder) => format!("{folder}/{key}"),
        None => key.to_owned(),
    }
}
