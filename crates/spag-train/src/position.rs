//! How far a run is: everything about it that is neither a weight nor a moment.

use serde::{Deserialize, Serialize};

use crate::loss::Parts;

/// Where a run stands after a number of steps. Kept with every checkpoint, so that what is told afterwards is what an
/// uninterrupted run would tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Optimizer steps taken, skipped ones included.
    pub step: usize,
    /// Tokens trained on.
    pub tokens: u64,
    /// Steps skipped because loss or gradients were not finite.
    pub skipped_steps: usize,
    /// How many of them were the last in a row.
    pub unsound_in_a_row: usize,
    /// Loss of the first step whose loss was finite.
    pub first_loss: Option<f64>,
    /// Loss of the last step whose loss was finite.
    pub last_loss: Option<f64>,
    /// The finite steps since the last line of metrics.
    pub window: Vec<StepLoss>,
}

/// The loss of one step and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLoss {
    /// The loss.
    pub loss: f64,
    /// Its parts.
    pub parts: Parts,
}

impl Position {
    /// Counts a step that changed the weights.
    pub(crate) fn take(&mut self, loss: StepLoss, tokens: u64) {
        self.step += 1;
        self.tokens += tokens;
        self.unsound_in_a_row = 0;
        self.first_loss.get_or_insert(loss.loss);
        self.last_loss = Some(loss.loss);
        self.window.push(loss);
    }

    /// Counts a step that was skipped.
    pub(crate) fn skip(&mut self, tokens: u64) {
        self.step += 1;
        self.tokens += tokens;
        self.skipped_steps += 1;
        self.unsound_in_a_row += 1;
    }

    /// Mean loss and parts of the window, which begins anew.
    pub(crate) fn close_window(&mut self) -> StepLoss {
        let window = std::mem::take(&mut self.window);
        let loss = window.iter().map(|step| step.loss).sum::<f64>() / window.len() as f64;
        StepLoss { loss, parts: Parts::together(&window.iter().map(|step| step.parts).collect::<Vec<_>>()) }
    }
}
