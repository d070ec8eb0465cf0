//! The result of a run.

use std::time::Duration;

use crate::position::Position;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainSummary {
    /// Optimizer steps, including those before an interruption.
    pub steps: usize,
    /// The step at which this start resumed; 0 if it did not.
    pub resumed_at: usize,
    /// Tokens trained on.
    pub tokens: u64,
    /// Wall time of this start, in seconds.
    pub seconds: f64,
    /// Loss of the first step; NaN if no step's loss was finite.
    pub first_loss: f64,
    /// Loss of the last step; NaN if no step's loss was finite.
    pub last_loss: f64,
    /// Rows (0-based) left out because no token of their target could be predicted within `max_length`.
    pub dropped: Vec<usize>,
    /// Steps skipped because loss or gradients were not finite.
    pub skipped_steps: usize,
}

impl TrainSummary {
    pub(crate) fn new(position: &Position, dropped: &[usize], took: Duration) -> Self {
        Self {
            steps: position.step,
            resumed_at: 0,
            tokens: position.tokens,
            seconds: took.as_secs_f64(),
            first_loss: position.first_loss.unwrap_or(f64::NAN),
            last_loss: position.last_loss.unwrap_or(f64::NAN),
            dropped: dropped.to_vec(),
            skipped_steps: position.skipped_steps,
        }
    }
}
