//! The LLaMA architecture (Touvron et al. 2023) with hand-written forward and backward passes.

mod block;
mod init;
mod network;

use std::sync::Arc;

use candle_core::Tensor;

use crate::checkpoint::WeightDtype;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::ops::cast::computable;
use crate::ops::rope::RopeTable;
use crate::packed::{PackedBatch, Targets};
use crate::params::{FlatBuffers, GradientSink, Layout};

pub(crate) use init::RandomWeights;
pub use network::{Activations, Forward, Network};

/// A LLaMA: its network and its parameters in flat buffers.
#[derive(Clone, Debug)]
pub struct Model {
    network: Network,
    parameters: FlatBuffers,
}

impl Model {
    /// A model with random weights.
    ///
    /// # Errors
    /// An inconsistent configuration, or too little memory.
    pub fn init(config: &ModelConfig, seed: u64) -> Result<Self> {
        config.check()?;
        let parameters = init::random(config, &Layout::new(config), seed)?;
        Self::from_parameters(config, parameters)
    }

    /// A model with given parameters.
    ///
    /// # Errors
    /// Parameters of another layout than that of `config`.
    pub fn from_parameters(config: &ModelConfig, parameters: FlatBuffers) -> Result<Self> {
        let network = Network::new(config)?;
        if parameters.layout() != network.layout() {
            return Err(Error::Config("the parameters have another layout than the configuration".into()));
        }
        Ok(Self { network, parameters })
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

    pub(crate) fn rope(&self) -> Arc<RopeTable> {
        self.network.rope()
    }

    /// The embedding, [V, D].
    pub(crate) fn embedding(&self) -> Result<Tensor> {
        Ok(computable(&self.parameters.view(0, 0)?)?)
    }

    /// The final norm's weight, `[D]`.
    pub(crate) fn final_norm(&self) -> Result<Tensor> {
        Ok(computable(&self.parameters.view(self.config().num_hidden_layers + 1, 0)?)?)
    }

    /// The output head, [V, D]. With tied embeddings it is the embedding.
    pub(crate) fn head(&self) -> Result<Tensor> {
        if self.config().tie_word_embeddings {
            return self.embedding();
        }
        Ok(computable(&self.parameters.view(self.config().num_hidden_layers + 1, 1)?)?)
    }

    /// A copy that does not share the parameters ([`Clone`] does).
    pub fn deep_copy(&self) -> Result<Self> {
        Self::from_parameters(self.config(), self.parameters.deep_copy()?)
    }

    /// A copy with the parameters rounded to another number format.
    pub fn to_dtype(&self, dtype: WeightDtype) -> Result<Self> {
        Self::from_parameters(self.config(), self.parameters.to_dtype(dtype)?)
    }

    /// As [`Network::log_probs`].
    pub fn log_probs(&self, batch: &PackedBatch, targets: &Targets) -> Result<Vec<f32>> {
        self.network.log_probs(&self.parameters, batch, targets)
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
