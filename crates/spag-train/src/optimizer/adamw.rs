//! AdamW (Loshchilov and Hutter 2019), as torch computes it.

use candle_core::Tensor;
use spag_ops::adamw::{AdamWStep, adamw};

use super::{Optimizer, StateBuffer, UpdateStep, UpdateUnit, Weights};
use crate::error::Result;

/// AdamW's hyperparameters.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

impl Optimizer for AdamW {
    fn state(&self) -> &'static [StateBuffer] {
        const { &[StateBuffer::new("exp_avg"), StateBuffer::new("exp_avg_sq")] }
    }

    fn unit(&self) -> UpdateUnit {
        if self.weight_decay == 0.0 { UpdateUnit::Layers } else { UpdateUnit::Elements }
    }

    fn update(&self, step: &UpdateStep, weights: Weights<'_>, gradient: &Tensor, buffers: &[Tensor]) -> Result<()> {
        let [first, second] = buffers else {
            return Err(candle_core::Error::Msg(format!("AdamW has 2 buffers, not {}", buffers.len())).into());
        };
        let numbers = AdamWStep {
            step: step.count,
            learning_rate: step.learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: if step.decay { self.weight_decay } else { 0.0 },
            gradient_scale: step.gradient_scale,
        };
        Ok(adamw(weights, gradient, first, second, &numbers)?)
    }
}
