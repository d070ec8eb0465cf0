//! The progress of a run that a checkpoint saves besides tensors.

use serde::{Deserialize, Serialize};

use crate::metrics::{Metric, MetricValues};

/// The progress of a run. Saved with every checkpoint, so that a resumed run reports what an uninterrupted one would.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Optimizer steps taken, skipped ones included.
    pub step: usize,
    /// Tokens trained on.
    pub tokens: u64,
    /// Steps skipped because loss or gradients were not finite.
    pub skipped_steps: usize,
    /// How many of them were the most recent steps.
    #[serde(rename = "unsound_in_a_row")]
    pub(crate) skipped_in_a_row: usize,
    /// Loss of the first step whose loss was finite.
    pub first_loss: Option<f64>,
    /// Loss of the last step whose loss was finite.
    pub last_loss: Option<f64>,
    /// The finite steps since the last line of metrics.
    pub window: Vec<StepLoss>,
}

/// The loss and metrics of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLoss {
    /// The loss.
    pub loss: f64,
    /// Its metrics.
    #[serde(rename = "parts")]
    pub metrics: MetricValues,
}

impl Position {
    /// Counts a step that changed the weights.
    pub(crate) fn record_update(&mut self, loss: StepLoss, tokens: u64) {
        self.step += 1;
        self.tokens += tokens;
        self.skipped_in_a_row = 0;
        self.first_loss.get_or_insert(loss.loss);
        self.last_loss = Some(loss.loss);
        self.window.push(loss);
    }

    /// Counts a step that was skipped.
    pub(crate) fn record_skip(&mut self, tokens: u64) {
        self.step += 1;
        self.tokens += tokens;
        self.skipped_steps += 1;
        self.skipped_in_a_row += 1;
    }

    /// Mean loss and metrics of the window; starts a new window.
    pub(crate) fn close_window(&mut self, metrics: &[Metric]) -> StepLoss {
        let window = std::mem::take(&mut self.window);
        let loss = window.iter().map(|step| step.loss).sum::<f64>() / window.len() as f64;
        StepLoss { loss, metrics: MetricValues::of_steps(metrics, window.iter().map(|step| (&step.metrics, 1.0))) }
    }
}
