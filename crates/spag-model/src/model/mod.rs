//! Decoder-only language models with hand-written forward and backward passes.

pub(crate) mod block;
mod head;
mod init;
mod lengths;
mod linear;
mod network;
mod quantisation;
mod scale;
mod shape;
mod train_block;
mod weights;

use std::sync::Arc;

use candle_core::Tensor;

use crate::batch::{PackedBatch, Targets};
use crate::config::ModelConfig;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::packed_weights::PackedWeights;
use crate::params::{FlatBuffers, GradientSink, Layout};

pub(crate) use init::RandomWeights;
pub(crate) use lengths::{LengthClass, LengthClasses};
pub use network::{Activations, Forward, Network};
pub use quantisation::Quantisation;
pub(crate) use quantisation::QuantisedModel;
pub(crate) use scale::{EmbeddingScale, LogitScale};
pub(crate) use shape::AttentionShape;
pub use spag_ops::matmul::Arithmetic;
pub use spag_ops::quantised::BlockFormat;
pub use train_block::SavedElements;

/// A model: its network and its parameters in flat buffers.
#[derive(Clone, Debug)]
pub struct Model {
    network: Network,
    parameters: FlatBuffers,
    quantisation: Option<Quantisation>,
    /// The packed weights of a model that was quantised while loading. The parameters are then empty.
    packed: Option<Arc<PackedWeights>>,
}

impl Model {
    /// A model with random weights.
    ///
    /// # Errors
    /// An inconsistent configuration, or out of memory.
    pub fn init(config: &ModelConfig, seed: u64) -> Result<Self> {
        let parameters = init::random(config, &Layout::new(&config.architecture), seed)?;
        Self::from_parameters(config, parameters)
    }

    /// A model with given parameters.
    ///
    /// # Errors
    /// The layout of the parameters differs from that of `config`.
    pub fn from_parameters(config: &ModelConfig, parameters: FlatBuffers) -> Result<Self> {
        let network = Network::new(config)?;
        if parameters.layout() != network.layout() {
            return Err(Error::Config("the parameters have another layout than the configuration".into()));
        }
        Ok(Self { network, parameters, quantisation: None, packed: None })
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        self.network.config()
    }

    /// The network without the parameters.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The parameters; an optimizer updates them in place.
    pub fn parameters(&self) -> &FlatBuffers {
        &self.parameters
    }

    /// The parameters, without the model.
    pub(crate) fn into_parameters(self) -> FlatBuffers {
        self.parameters
    }

    fn with_parameters(&self, parameters: FlatBuffers) -> Result<Self> {
        let (quantisation, packed) = (self.quantisation, self.packed.clone());
        Ok(Self { quantisation, packed, ..Self::from_parameters(self.config(), parameters)? })
    }

    /// A copy that does not share the parameters ([`Clone`] does).
    pub fn deep_copy(&self) -> Result<Self> {
        self.with_parameters(self.parameters.deep_copy()?)
    }

    /// A copy with the parameters rounded to another number format. Quantised weights are unchanged.
    pub fn to_dtype(&self, dtype: WeightDtype) -> Result<Self> {
        self.with_parameters(self.parameters.to_dtype(dtype)?)
    }

    /// As [`Network::log_probs`].
    pub fn log_probs(&self, batch: &PackedBatch, targets: &Targets) -> Result<Vec<f32>> {
        self.network.log_probs(&self.parameters, batch, targets)
    }

    /// As [`Network::logits`].
    pub fn logits(&self, batch: &PackedBatch, rows: &[u32]) -> Result<Tensor> {
        self.network.logits(&self.parameters, batch, rows)
    }

    /// As [`Network::forward`].
    pub fn forward(&self, batch: PackedBatch, targets: Targets, keep: Activations) -> Result<Forward> {
        self.network.forward(&self.parameters, batch, targets, keep)
    }

    /// As [`Network::backward`].
    pub fn backward(&self, forward: Forward, upstream: &Tensor, gradients: &dyn GradientSink) -> Result<()> {
        self.network.backward(&self.parameters, forward, upstream, gradients)
    }

    /// As [`Model::backward`], with upstream gradients from the host.
    pub fn backward_from(&self, forward: Forward, upstream: &[f32], gradients: &dyn GradientSink) -> Result<()> {
        let upstream = Tensor::from_slice(upstream, upstream.len(), self.parameters.device())?;
        self.backward(forward, &upstream, gradients)
    }
}
