//! Optimizers over the flat tensors of layers. One optimizer a file; [`build`] chooses.
//!
//! An [`Optimizer`] is the update rule alone: it declares its state and updates one span of weights. [`OptimizerState`] keeps
//! the state, the f32 master weights of bf16 parameters and the update count, and moves data if the state is offloaded to the
//! host. Checkpoints, shards and memory plans follow from the declaration.

mod adamw;
mod muon;
mod norm;
mod offload;
mod sgd;
mod spans;
mod state;

use candle_core::Tensor;
use spag_model::dtype::WeightDtype;
pub use spag_ops::adamw::Weights;

use crate::config::{Optim, TrainConfig};
use crate::error::Result;

pub use adamw::AdamW;
pub use muon::Muon;
pub use norm::global_norm;
pub use sgd::Sgd;
pub use spans::Covers;
pub use state::OptimizerState;

pub(crate) use norm::{clip_factor, squared_norm, stays_finite};
pub(crate) use offload::STAGING_BUFFERS;
pub(crate) use spans::{UpdateSpan, update_spans};
pub(crate) use state::ShardedParameters;

/// The update rule of an optimizer.
pub trait Optimizer: Send + Sync {
    /// The state, as buffers that start at zero.
    fn state(&self) -> &'static [StateBuffer];

    /// What one [`Optimizer::update`] gets.
    fn unit(&self) -> UpdateUnit {
        UpdateUnit::Elements
    }

    /// Updates `weights` and `buffers` in place from `gradient`: flat tensors of one length, f32 except bf16 weights, what
    /// [`StateBuffer::dtype`] says, and gradients that were copied to the host in bf16. `buffers` are those that cover the span, in the
    /// order of [`Optimizer::state`].
    ///
    /// # Errors
    /// A failure of the device.
    fn update(&self, step: &UpdateStep, weights: Weights<'_>, gradient: &Tensor, buffers: &[Tensor]) -> Result<()>;
}

/// A buffer of an optimizer's state, with one element for each parameter that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBuffer {
    /// Its name, which is also the stem of its files in a checkpoint.
    pub name: &'static str,
    /// Number format.
    pub dtype: WeightDtype,
    /// The parameters that have an element in it.
    pub covers: Covers,
}

impl StateBuffer {
    /// An f32 buffer of all parameters.
    pub const fn new(name: &'static str) -> Self {
        Self { name, dtype: WeightDtype::F32, covers: Covers::All }
    }
}

/// What an optimizer updates at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateUnit {
    /// Any consecutive elements: each is updated by itself, so shards may begin anywhere.
    Elements,
    /// The same without weight decay: all elements are updated alike, so that a layer is one span.
    Layers,
    /// Whole matrices of blocks, by their rows and columns, and any elements of the other parameters. State and gradients
    /// can't be sharded.
    Matrices,
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
    /// Rows and columns, if these weights are a matrix of a block and the unit is [`UpdateUnit::Matrices`].
    pub matrix: Option<(usize, usize)>,
}

/// The optimizer of a configuration.
pub fn build(config: &TrainConfig) -> Box<dyn Optimizer> {
    let adamw = AdamW {
        beta1: config.adam_beta1,
        beta2: config.adam_beta2,
        epsilon: config.adam_epsilon,
        weight_decay: config.weight_decay,
    };
    match config.optim {
        Optim::AdamW => Box::new(adamw),
        Optim::Sgd => Box::new(Sgd { weight_decay: config.weight_decay }),
        Optim::Muon => Box::new(Muon { momentum: Muon::MOMENTUM, others: adamw }),
    }
}

/// Replaces weights by what `update` makes of them in f32.
fn replace(weights: Weights<'_>, update: impl FnOnce(&Tensor) -> candle_core::Result<Tensor>) -> Result<()> {
    match weights {
        Weights::F32(weights) => weights.slice_set(&update(weights)?, 0, 0)?,
        Weights::Master { wide, rounded } => {
            wide.slice_set(&update(wide)?, 0, 0)?;
            rounded.slice_set(&wide.to_dtype(rounded.dtype())?, 0, 0)?;
        }
        Weights::Stochastic { .. } => return Err(candle_core::Error::Msg("no master weights".into()).into()),
    }
    Ok(())
}
