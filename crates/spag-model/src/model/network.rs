//! Forward and backward passes of the model, with weights from a [`WeightSource`].

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::block::{self, BlockActivations, BlockWeights, Shape};
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::kernels;
use crate::ops::cast::computable;
use crate::ops::log_prob::{self, LogProbs};
use crate::ops::pool::{self, Pool, recycle};
use crate::ops::rope::RopeTable;
use crate::ops::{cpu, embedding, rms_norm};
use crate::packed::{PackedBatch, Targets};
use crate::params::{GradientSink, Layout, WeightSource};

/// Activations that the forward pass keeps for the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Keeps all activations.
    #[default]
    Keep,
    /// Keeps block inputs and recomputes the rest in the backward pass (activation checkpointing).
    Recompute,
}

enum Saved {
    All(Box<BlockActivations>),
    Input(Tensor),
}

/// Output of a training forward pass: log-probabilities and the saved activations.
pub struct Forward {
    batch: PackedBatch,
    shape: Shape,
    targets: Targets,
    blocks: Vec<Saved>,
    rows_md: Tensor,
    normed_md: Tensor,
    log_probs: LogProbs,
}

impl Forward {
    /// ln p(target) of each target, `[M]`, f32, on the model's device.
    pub fn log_probs(&self) -> &Tensor {
        &self.log_probs.values
    }

    /// As [`Forward::log_probs`], copied to the host. Waits for the device.
    pub fn read_log_probs(&self) -> Result<Vec<f32>> {
        Ok(self.log_probs.values.to_vec1()?)
    }
}

/// A LLaMA without parameters. Its passes read the weights layer by layer from a [`WeightSource`].
///
/// The forward pass requests the embedding (layer 0), the blocks and the head; the backward pass requests them in reverse,
/// and the embedding only if the head is tied to it.
#[derive(Clone, Debug)]
pub struct Network {
    config: ModelConfig,
    layout: Layout,
    rope: Arc<RopeTable>,
    pool: Arc<Pool>,
}

/// An unsharded layer. Dropping it reshards the layer.
struct Unsharded<'a> {
    source: &'a dyn WeightSource,
    index: usize,
    buffer: Tensor,
}

impl<'a> Unsharded<'a> {
    fn new(source: &'a dyn WeightSource, index: usize, next: Option<usize>) -> Result<Self> {
        Ok(Self { source, index, buffer: source.unshard(index, next)? })
    }

    /// One of the layer's tensors, in a format that the device's ops accept.
    fn view(&self, layout: &Layout, view: usize) -> Result<Tensor> {
        Ok(computable(&layout.view(&self.buffer, self.index, view)?)?)
    }
}

impl Drop for Unsharded<'_> {
    fn drop(&mut self) {
        self.source.reshard(self.index);
    }
}

/// The final norm and the output head, with the layers that hold them.
struct Head<'a> {
    norm: Tensor,
    head: Tensor,
    _layers: Vec<Unsharded<'a>>,
}

impl Network {
    /// Creates the network of a configuration.
    pub fn new(config: &ModelConfig) -> Result<Self> {
        config.check()?;
        let rope = RopeTable::new(config.head_dim(), config.rope_theta, config.max_position_embeddings);
        Ok(Self { config: config.clone(), layout: Layout::new(config), rope: Arc::new(rope), pool: Arc::default() })
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The layout of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn rope(&self) -> Arc<RopeTable> {
        self.rope.clone()
    }

    /// Index of the head's layer.
    fn last(&self) -> usize {
        self.config.num_hidden_layers + 1
    }

    fn shape(&self, batch: &PackedBatch, device: &Device) -> Result<Shape> {
        Ok(Shape::new(&self.config, self.rope.clone(), batch, device)?)
    }

    /// Validates the inputs of a pass.
    fn check(&self, weights: &dyn WeightSource, batch: &PackedBatch, targets: &Targets) -> Result<()> {
        if *weights.layout() != self.layout {
            return Err(Error::Config("the parameters have another layout than the configuration".into()));
        }
        targets.check(batch)?;
        let longest = batch.positions.iter().max().map_or(0, |p| *p as usize + 1);
        let limit = self.config.max_position_embeddings;
        if longest > limit {
            return Err(Error::Batch(format!(
                "a sequence of {longest} tokens is longer than the model's max_position_embeddings {limit}; lower max_length"
            )));
        }
        Ok(())
    }

    /// Runs a pass. On a CPU it runs on a rayon thread, where spawning tasks is cheapest, with buffers from `pool`.
    fn run<R: Send>(&self, device: &Device, pool: &Arc<Pool>, pass: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        match kernels::of(device)? {
            Some(_) => pass(),
            None => rayon::scope(|_| pool.during(pass)),
        }
    }

    /// Embeds `ids`: [N, D].
    fn embed(&self, weights: &dyn WeightSource, ids: &[u32]) -> Result<Tensor> {
        let layer = Unsharded::new(weights, 0, Some(1))?;
        Ok(embedding::forward(ids, &self.layout.view(&layer.buffer, 0, 0)?)?)
    }

    /// Block `index`. Layer `next` is prefetched.
    fn block<'a>(
        &self,
        weights: &'a dyn WeightSource,
        index: usize,
        next: Option<usize>,
    ) -> Result<(Unsharded<'a>, BlockWeights)> {
        let layer = Unsharded::new(weights, index + 1, next)?;
        let block = BlockWeights::of(&layer.buffer, &self.layout, index)?;
        Ok((layer, block))
    }

    /// The final norm and the head. Layer `next` is prefetched.
    fn head<'a>(&self, weights: &'a dyn WeightSource, next: Option<usize>) -> Result<Head<'a>> {
        let tied = self.config.tie_word_embeddings;
        let last = Unsharded::new(weights, self.last(), if tied { Some(0) } else { next })?;
        let norm = last.view(&self.layout, 0)?;
        if !tied {
            return Ok(Head { norm, head: last.view(&self.layout, 1)?, _layers: vec![last] });
        }
        let first = Unsharded::new(weights, 0, next)?;
        Ok(Head { norm, head: first.view(&self.layout, 0)?, _layers: vec![last, first] })
    }

    /// ln p(target) of each target, without saving activations.
    ///
    /// # Errors
    /// A token outside the vocabulary, a sequence longer than `max_position_embeddings`, rows outside the batch, weights of
    /// another layout, or a failure of the weight source.
    pub fn log_probs(&self, weights: &dyn WeightSource, batch: &PackedBatch, targets: &Targets) -> Result<Vec<f32>> {
        self.check(weights, batch, targets)?;
        // A temporary pool: a reference model holds no memory between passes.
        self.run(weights.device(), &Arc::default(), || {
            let shape = self.shape(batch, weights.device())?;
            let mut x = self.embed(weights, &batch.ids)?;
            for index in 0..self.config.num_hidden_layers {
                let (_layer, block) = self.block(weights, index, Some(index + 2))?;
                let (y, saved) = block::forward(x, &block, &shape)?;
                recycle(saved.into_input()?)?;
                x = y;
            }
            let rows = embedding::forward(&targets.rows, &x)?;
            let end = self.head(weights, None)?;
            let normed = rms_norm::forward(&rows, &end.norm, shape.eps)?;
            Ok(log_prob::values(&normed, &end.head, &targets.tokens)?.to_vec1()?)
        })
    }

    /// As [`Network::log_probs`], saving the activations for [`Network::backward`].
    pub fn forward(
        &self,
        weights: &dyn WeightSource,
        batch: PackedBatch,
        targets: Targets,
        keep: Activations,
    ) -> Result<Forward> {
        self.check(weights, &batch, &targets)?;
        self.run(weights.device(), &self.pool, || {
            let shape = self.shape(&batch, weights.device())?;
            let mut x = self.embed(weights, &batch.ids)?;
            let mut blocks = Vec::with_capacity(self.config.num_hidden_layers);
            for index in 0..self.config.num_hidden_layers {
                let (_layer, block) = self.block(weights, index, Some(index + 2))?;
                let (y, saved) = block::forward(x, &block, &shape)?;
                blocks.push(match keep {
                    Activations::Keep => Saved::All(Box::new(saved)),
                    Activations::Recompute => Saved::Input(saved.into_input()?),
                });
                x = y;
            }
            // Only rows with a target go through the final norm and the head.
            let rows_md = embedding::forward(&targets.rows, &x)?;
            recycle(x)?;
            let end = self.head(weights, None)?;
            let normed_md = rms_norm::forward(&rows_md, &end.norm, shape.eps)?;
            let log_probs = log_prob::forward(&normed_md, &end.head, &targets.tokens)?;
            Ok(Forward { batch, shape, targets, blocks, rows_md, normed_md, log_probs })
        })
    }

    /// Accumulates the gradients of all parameters into `gradients`. `upstream` is ∂loss/∂(log-probability) of each target,
    /// `[M]`, f32, on the weights' device. `weights` must be those of the forward pass.
    ///
    /// # Errors
    /// Mismatched lengths, gradients of another layout, or a failure of the weight source or gradient sink.
    pub fn backward(
        &self,
        weights: &dyn WeightSource,
        forward: Forward,
        upstream: &Tensor,
        gradients: &dyn GradientSink,
    ) -> Result<()> {
        if *gradients.layout() != self.layout {
            return Err(Error::Config("the gradients have another layout than the parameters".into()));
        }
        self.run(weights.device(), &self.pool, || self.layers_backward(weights, forward, upstream, gradients))?;
        self.pool.trim();
        Ok(())
    }

    /// Zeros [rows, D], with the device and number format of `like`.
    fn zero_rows(&self, rows: usize, like: &Tensor) -> Result<Tensor> {
        let shape = (rows, self.config.hidden_size);
        if kernels::of(like.device())?.is_some() {
            return Ok(Tensor::zeros(shape, like.dtype(), like.device())?);
        }
        let zeros = cpu::tensor(pool::values(rows * self.config.hidden_size), shape)?;
        zeros.zero_set()?;
        Ok(zeros)
    }

    fn layers_backward(
        &self,
        weights: &dyn WeightSource,
        forward: Forward,
        upstream: &Tensor,
        gradients: &dyn GradientSink,
    ) -> Result<()> {
        let Forward { batch, shape, targets, mut blocks, rows_md, normed_md, log_probs } = forward;
        let drows = {
            let end = self.head(weights, Some(self.last() - 1))?;
            let last = gradients.buffer(self.last())?;
            let grad = |layer: &Tensor, index, view| self.layout.view(layer, index, view);
            let head_grad = if self.config.tie_word_embeddings {
                grad(&gradients.buffer(0)?, 0, 0)?
            } else {
                grad(&last, self.last(), 1)?
            };
            let dnormed = log_prob::backward(log_probs, &normed_md, &end.head, &targets.tokens, upstream, &head_grad)?;
            let norm_grad = grad(&last, self.last(), 0)?;
            let drows = rms_norm::backward(&rows_md, &end.norm, shape.eps, &dnormed, None, &norm_grad)?;
            for tensor in [normed_md, rows_md, dnormed] {
                recycle(tensor)?;
            }
            drows
        };
        gradients.complete(self.last())?;
        let mut dx = self.zero_rows(batch.len(), &drows)?;
        embedding::backward(&targets.rows, &drows, &dx)?;
        recycle(drows)?;
        while let Some(saved) = blocks.pop() {
            let index = blocks.len();
            {
                let (_layer, block) = self.block(weights, index, Some(index).filter(|below| *below > 0))?;
                let saved = match saved {
                    Saved::All(saved) => *saved,
                    Saved::Input(x) => {
                        let (y, saved) = block::forward(x, &block, &shape)?;
                        recycle(y)?;
                        saved
                    }
                };
                let grads = BlockWeights::of(&gradients.buffer(index + 1)?, &self.layout, index)?;
                dx = block::backward(saved, dx, &block, &grads, &shape)?;
            }
            gradients.complete(index + 1)?;
        }
        embedding::backward(&batch.ids, &dx, &self.layout.view(&gradients.buffer(0)?, 0, 0)?)?;
        recycle(dx)?;
        gradients.complete(0)
    }
}
