//! What the memory of training depends on beside the model.

use crate::checkpoint::WeightDtype;
use crate::llama::Activations;

/// Where the optimizer's state lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizerPlace {
    /// With the model.
    #[default]
    Device,
    /// In the host's memory.
    Host,
}

/// What the memory of a training run depends on beside the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingSettings {
    /// Number format of parameters and activations.
    pub dtype: WeightDtype,
    /// Tokens of a micro-batch, at most.
    pub tokens: usize,
    /// What is kept of each block.
    pub activations: Activations,
    /// Where the optimizer's state lies.
    pub optimizer: OptimizerPlace,
}
