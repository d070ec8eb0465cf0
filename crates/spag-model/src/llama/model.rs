//! The whole model: embedding, blocks, final norm and head.

use std::sync::Arc;

use candle_core::Tensor;

use super::block::{self, BlockActivations, BlockWeights, Shape};
use super::init;
use crate::checkpoint::WeightDtype;
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::kernels;
use crate::ops::cast::computable;
use crate::ops::log_prob::{self, LogProbs};
use crate::ops::pool::{self, Pool, recycle};
use crate::ops::rope::RopeTable;
use crate::ops::{cpu, embedding, rms_norm};
use crate::packed::{Packed, Targets};
use crate::params::{FlatBuffers, Layout};

/// A LLaMA: its configuration and its parameters in flat buffers.
#[derive(Clone, Debug)]
pub struct Llama {
    config: LlamaConfig,
    parameters: FlatBuffers,
    rope: Arc<RopeTable>,
    pool: Arc<Pool>,
}

/// What a training forward pass keeps of each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Everything the backward pass reads.
    #[default]
    Keep,
    /// The block's input alone; the backward pass computes the rest again (gradient checkpointing).
    Recompute,
}

enum Saved {
    All(Box<BlockActivations>),
    Input(Tensor),
}

/// The result of a training forward pass: log-probabilities, and what the backward pass needs.
pub struct Forward {
    batch: Packed,
    shape: Shape,
    targets: Targets,
    blocks: Vec<Saved>,
    rows_md: Tensor,
    normed_md: Tensor,
    log_probs: LogProbs,
}

impl Forward {
    /// ln p(target) of each target, `[M]`, f32, on the device of the model.
    pub fn log_probs(&self) -> &Tensor {
        &self.log_probs.values
    }

    /// As [`Forward::log_probs`], once the device has computed them.
    ///
    /// # Errors
    /// An error of the device.
    pub fn read_log_probs(&self) -> Result<Vec<f32>> {
        Ok(self.log_probs.values.to_vec1()?)
    }
}

impl Llama {
    /// A model with random weights.
    ///
    /// # Errors
    /// A configuration that does not fit together.
    pub fn init(config: &LlamaConfig, seed: u64) -> Result<Self> {
        config.check()?;
        let parameters = init::random(config, &Layout::new(config), seed)?;
        Self::from_parameters(config, parameters)
    }

    /// A model from parameters in the layout of `config`.
    ///
    /// # Errors
    /// Buffers of another layout.
    pub fn from_parameters(config: &LlamaConfig, parameters: FlatBuffers) -> Result<Self> {
        config.check()?;
        if *parameters.layout() != Layout::new(config) {
            return Err(Error::Config("the parameters have another layout than the configuration".into()));
        }
        let rope = RopeTable::new(config.head_dim(), config.rope_theta, config.max_position_embeddings);
        Ok(Self { config: config.clone(), parameters, rope: Arc::new(rope), pool: Arc::default() })
    }

    /// The configuration.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// The parameters; an optimizer updates them in place.
    pub fn parameters(&self) -> &FlatBuffers {
        &self.parameters
    }

    pub(crate) fn rope(&self) -> Arc<RopeTable> {
        self.rope.clone()
    }

    /// The embedding, [V, D].
    pub(crate) fn embedding(&self) -> Result<Tensor> {
        Ok(computable(&self.parameters.view(0, 0)?)?)
    }

    /// A copy with parameters in memory of its own ([`Clone`] shares them).
    ///
    /// # Errors
    /// The device cannot hold the copy.
    pub fn deep_copy(&self) -> Result<Self> {
        Ok(Self {
            config: self.config.clone(),
            parameters: self.parameters.deep_copy()?,
            rope: self.rope.clone(),
            pool: Arc::default(),
        })
    }

    /// The same model with its parameters rounded to another number format; arithmetic stays f32.
    ///
    /// # Errors
    /// The device cannot hold the copy.
    pub fn to_dtype(&self, dtype: WeightDtype) -> Result<Self> {
        let parameters = self.parameters.to_dtype(dtype)?;
        Self::from_parameters(&self.config, parameters)
    }

    /// The final norm's weight, `[D]`.
    pub(crate) fn final_norm(&self, buffers: &FlatBuffers) -> Result<Tensor> {
        Ok(computable(&buffers.view(self.config.num_hidden_layers + 1, 0)?)?)
    }

    /// The output head, [V, D]: the embedding itself when they are tied.
    pub(crate) fn head(&self, buffers: &FlatBuffers) -> Result<Tensor> {
        let view = match self.config.tie_word_embeddings {
            true => buffers.view(0, 0)?,
            false => buffers.view(self.config.num_hidden_layers + 1, 1)?,
        };
        Ok(computable(&view)?)
    }

    fn shape(&self, batch: &Packed) -> Result<Shape> {
        Ok(Shape::new(&self.config, self.rope.clone(), batch, self.parameters.device())?)
    }

    /// Rejects a batch that the model cannot read, before anything is computed.
    fn check(&self, batch: &Packed, targets: &Targets) -> Result<()> {
        targets.check(batch)?;
        let longest = batch.positions.iter().max().map_or(0, |p| *p as usize + 1);
        let limit = self.config.max_position_embeddings;
        match longest > limit {
            true => Err(Error::Batch(format!(
                "a sequence of {longest} tokens is longer than the model's max_position_embeddings {limit}; lower max_length"
            ))),
            false => Ok(()),
        }
    }

    /// Runs a pass. On a CPU with `pool`, on a thread of rayon's, where handing work to the other threads costs least.
    fn run<R: Send>(&self, pool: &Arc<Pool>, pass: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        match kernels::of(self.parameters.device())? {
            Some(_) => pass(),
            None => rayon::scope(|_| pool.during(pass)),
        }
    }

    /// ln p(target) of each target, without keeping anything for a backward pass.
    ///
    /// # Errors
    /// A token outside the vocabulary, a sequence longer than the model's positions, or rows outside the batch.
    pub fn log_probs(&self, batch: &Packed, targets: &Targets) -> Result<Vec<f32>> {
        self.check(batch, targets)?;
        // A pool of its own, gone afterwards: a reference model holds no memory between its passes.
        self.run(&Arc::default(), || {
            let shape = self.shape(batch)?;
            let mut x = embedding::forward(&batch.ids, &self.parameters.view(0, 0)?)?;
            for index in 0..self.config.num_hidden_layers {
                let weights = BlockWeights::of(&self.parameters, index)?;
                let (y, saved) = block::forward(x, &weights, &shape)?;
                recycle(saved.into_input()?)?;
                x = y;
            }
            let rows = embedding::forward(&targets.rows, &x)?;
            let normed = rms_norm::forward(&rows, &self.final_norm(&self.parameters)?, shape.eps)?;
            Ok(log_prob::values(&normed, &self.head(&self.parameters)?, &targets.tokens)?.to_vec1()?)
        })
    }

    /// As [`Llama::log_probs`], keeping what [`Llama::backward`] needs.
    ///
    /// # Errors
    /// As [`Llama::log_probs`].
    pub fn forward(&self, batch: Packed, targets: Targets, keep: Activations) -> Result<Forward> {
        self.check(&batch, &targets)?;
        self.run(&self.pool, || {
            let shape = self.shape(&batch)?;
            let mut x = embedding::forward(&batch.ids, &self.parameters.view(0, 0)?)?;
            let mut blocks = Vec::with_capacity(self.config.num_hidden_layers);
            for index in 0..self.config.num_hidden_layers {
                let weights = BlockWeights::of(&self.parameters, index)?;
                let (y, saved) = block::forward(x, &weights, &shape)?;
                blocks.push(match keep {
                    Activations::Keep => Saved::All(Box::new(saved)),
                    Activations::Recompute => Saved::Input(saved.into_input()?),
                });
                x = y;
            }
            // Only rows that predict a target go through the final norm and the head.
            let rows_md = embedding::forward(&targets.rows, &x)?;
            recycle(x)?;
            let normed_md = rms_norm::forward(&rows_md, &self.final_norm(&self.parameters)?, shape.eps)?;
            let log_probs = log_prob::forward(&normed_md, &self.head(&self.parameters)?, &targets.tokens)?;
            Ok(Forward { batch, shape, targets, blocks, rows_md, normed_md, log_probs })
        })
    }

    /// Adds the gradients of all parameters to `grads`, given ∂loss/∂(log-probability) of each target, `[M]`, f32,
    /// on the device of the model.
    ///
    /// # Errors
    /// Lengths that do not fit, or gradient buffers of another layout.
    pub fn backward(&self, forward: Forward, upstream: &Tensor, grads: &FlatBuffers) -> Result<()> {
        if grads.layout() != self.parameters.layout() {
            return Err(Error::Config("the gradients have another layout than the parameters".into()));
        }
        self.run(&self.pool, || self.blocks_backward(forward, upstream, grads))?;
        self.pool.trim();
        Ok(())
    }

    /// As [`Llama::backward`], given numbers of the host.
    ///
    /// # Errors
    /// As [`Llama::backward`].
    pub fn backward_from(&self, forward: Forward, upstream: &[f32], grads: &FlatBuffers) -> Result<()> {
        let upstream = Tensor::from_slice(upstream, upstream.len(), self.parameters.device())?;
        self.backward(forward, &upstream, grads)
    }

    /// Zeros [rows, D], of the device and the number format of `like`.
    fn zero_rows(&self, rows: usize, like: &Tensor) -> Result<Tensor> {
        let shape = (rows, self.config.hidden_size);
        if kernels::of(like.device())?.is_some() {
            return Ok(Tensor::zeros(shape, like.dtype(), like.device())?);
        }
        let zeros = cpu::tensor(pool::values(rows * self.config.hidden_size), shape)?;
        zeros.zero_set()?;
        Ok(zeros)
    }

    fn blocks_backward(&self, forward: Forward, upstream: &Tensor, grads: &FlatBuffers) -> Result<()> {
        let Forward { batch, shape, targets, mut blocks, rows_md, normed_md, log_probs } = forward;
        let (head, norm) = (self.head(&self.parameters)?, self.final_norm(&self.parameters)?);
        let dnormed = log_prob::backward(log_probs, &normed_md, &head, &targets.tokens, upstream, &self.head(grads)?)?;
        let drows = rms_norm::backward(&rows_md, &norm, shape.eps, &dnormed, None, &self.final_norm(grads)?)?;
        for tensor in [normed_md, rows_md, dnormed] {
            recycle(tensor)?;
        }
        let mut dx = self.zero_rows(batch.len(), &drows)?;
        embedding::backward(&targets.rows, &drows, &dx)?;
        recycle(drows)?;
        while let Some(saved) = blocks.pop() {
            let index = blocks.len();
            let weights = BlockWeights::of(&self.parameters, index)?;
            let saved = match saved {
                Saved::All(saved) => *saved,
                Saved::Input(x) => {
                    let (y, saved) = block::forward(x, &weights, &shape)?;
                    recycle(y)?;
                    saved
                }
            };
            dx = block::backward(saved, dx, &weights, &BlockWeights::of(grads, index)?, &shape)?;
        }
        embedding::backward(&batch.ids, &dx, &grads.view(0, 0)?)?;
        recycle(dx)?;
        Ok(())
    }
}
