//! Optimizers over flat tensors. One optimizer a file; [`build`] chooses.
//!
//! An [`Optimizer`] is the update rule alone. [`OptimizerState`] keeps its buffers, the f32 master weights of bf16
//! parameters and the update count, and moves data if the state is offloaded to the host.

mod adamw;
mod norm;
mod offload;
mod state;

use candle_core::Tensor;
pub use spag_model::ops::adamw::Weights;

use crate::config::TrainConfig;
use crate::error::Result;

pub use adamw::AdamW;
pub use norm::global_norm;
pub use state::OptimizerState;

pub(crate) use norm::{clip_factor, squared_norm};
pub(crate) use offload::STAGING_BUFFERS;
pub(crate) use state::{DecaySpan, ShardedParameters, decay_spans};

/// The update rule of an optimizer.
pub trait Optimizer: Send + Sync {
    /// Names of the state buffers, which are also the stems of their files in a checkpoint. Each buffer is f32, as long as
    /// the parameters, and starts at zero.
    fn buffer_names(&self) -> &'static [&'static str];

    /// Updates `weights` and `buffers` in place from `gradient`: flat tensors of one length, f32 except bf16 weights.
    /// `buffers` are in the order of [`Optimizer::buffer_names`].
    ///
    /// # Errors
    /// A failure of the device.
    fn update(&self, step: &UpdateStep, weights: Weights<'_>, gradient: &Tensor, buffers: &[Tensor]) -> Result<()>;
}

/// What an update depends on besides the tensors.
#[derive(Clone, Copy, Debug)]
pub struct UpdateStep {
    /// Updates so far, this one included; 1 for the first.
    pub count: u64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Multiplies the gradient first, for clipping.
    pub gradient_scale: f64,
    /// Whether weight decay applies to these weights: to matrices, not to norm weights.
    pub decay: bool,
}

/// The optimizer of a configuration.
pub fn build(config: &TrainConfig) -> Box<dyn Optimizer> {
    Box::new(AdamW {
        beta1: config.adam_beta1,
        beta2: config.adam_beta2,
        epsilon: config.adam_epsilon,
        weight_decay: config.weight_decay,
    })
}
