//! Stochastic gradient descent, as torch computes it without momentum.

use candle_core::Tensor;
use spag_ops::cast::widened;

use super::{Optimizer, StateBuffer, UpdateStep, Weights, replace};
use crate::error::Result;

/// w ← w − η·(g + λ·w). It has no state.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    /// λ: the weight decay, added to the gradient.
    pub weight_decay: f64,
}

impl Optimizer for Sgd {
    fn state(&self) -> &'static [StateBuffer] {
        &[]
    }

    fn update(&self, step: &UpdateStep, weights: Weights<'_>, gradient: &Tensor, _: &[Tensor]) -> Result<()> {
        let decay = if step.decay { self.weight_decay } else { 0.0 };
        let moved = (widened(gradient)? * (step.gradient_scale * step.learning_rate))?;
        replace(weights, |w| (w * (1.0 - step.learning_rate * decay))? - moved)
    }
}
