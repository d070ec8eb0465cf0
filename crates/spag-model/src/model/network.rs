//! Forward and backward passes of the model, with weights from a [`WeightSource`].

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::head::{Head, zeros};
use super::scale::{EmbeddingScale, LogitScale};
use super::shape::{AttentionShape, BatchShape};
use super::train_block::{self, BlockActivations};
use super::weights::{BlockGradients, BlockWeights};
use crate::batch::{PackedBatch, Rows, Targets};
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::params::{AdapterWeights, GradientSink, Layout, Part, Unsharded, Update, WeightSource};
use spag_ops::kernels;
use spag_ops::log_prob::{self, LogProbs};
use spag_ops::matmul::Arithmetic;
use spag_ops::pool::{Pool, recycle};
use spag_ops::{embedding, matmul, rms_norm};

/// Activations saved by the forward pass for the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Keeps all activations.
    #[default]
    Keep,
    /// Keeps those of the last blocks, of which this is the number, and of the other blocks the inputs alone, from which the backward
    /// pass recomputes the rest (activation checkpointing). The last blocks are the first to be freed again.
    KeepLast(usize),
}

impl Activations {
    /// The number of blocks that keep theirs while the others recompute them; `None` if all blocks keep theirs.
    pub fn kept(self) -> Option<usize> {
        match self {
            Self::Keep => None,
            Self::KeepLast(count) => Some(count),
        }
    }

    /// How many of a model's `blocks` blocks keep all of their activations.
    pub fn kept_of(self, blocks: usize) -> usize {
        self.kept().map_or(blocks, |count| count.min(blocks))
    }
}

enum Saved {
    All(Box<BlockActivations>),
    Input(Tensor),
}

/// Output of a training forward pass: log-probabilities and the saved activations.
pub struct Forward {
    batch: PackedBatch,
    shape: BatchShape,
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

    /// [`Forward::log_probs`] copied to the host. Waits for the device.
    pub fn read_log_probs(&self) -> Result<Vec<f32>> {
        Ok(self.log_probs.values.to_vec1()?)
    }
}

/// A model without parameters. Its passes read the weights layer by layer from a [`WeightSource`].
///
/// The forward pass requests the embedding (layer 0), the blocks and the head; the backward pass requests them in reverse,
/// and the embedding only if the head is tied to it.
#[derive(Clone, Debug)]
pub struct Network {
    config: ModelConfig,
    layout: Layout,
    shape: AttentionShape,
    pool: Arc<Pool>,
}

impl Network {
    /// Creates the network of a configuration.
    pub fn new(config: &ModelConfig) -> Result<Self> {
        let (shape, layout) = (AttentionShape::new(&config.architecture)?, Layout::new(&config.architecture));
        Ok(Self { config: config.clone(), layout, shape, pool: Arc::default() })
    }

    /// Sets the arithmetic of bf16 attention in the training pass on a CPU.
    ///
    /// The default is [`Arithmetic::Bf16`], the fastest. With [`Arithmetic::F32`], log-probabilities are
    /// bit-identical to those of generation, for all batches and pages; with f32 models they always are.
    pub fn with_attention(mut self, arithmetic: Arithmetic) -> Self {
        self.shape.attention = arithmetic;
        self
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The layout of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn attention_shape(&self) -> &AttentionShape {
        &self.shape
    }

    /// Index of the head's layer.
    fn last(&self) -> usize {
        self.config.architecture.num_hidden_layers + 1
    }

    fn shape(&self, batch: &PackedBatch, device: &Device) -> Result<BatchShape> {
        Ok(BatchShape::new(&self.shape, batch, device)?)
    }

    /// Validates the inputs of a pass.
    fn check(&self, weights: &dyn WeightSource, batch: &PackedBatch, targets: &Targets) -> Result<()> {
        if !self.layout.has_tensors_of(weights.layout()) {
            return Err(Error::Config("the parameters have another layout than the configuration".into()));
        }
        targets.check(batch)?;
        if batch.rows == Rows::Merged && self.config.architecture.long_after().is_some() {
            return Err(Error::Batch(
                "sequences with common rows cannot be computed: the frequencies of the model's LongRoPE depend on the length of each \
                 sequence"
                    .into(),
            ));
        }
        let longest = batch.positions.iter().max().map_or(0, |p| *p as usize + 1);
        let limit = self.config.architecture.max_position_embeddings;
        if longest > limit {
            return Err(Error::Batch(format!(
                "a sequence of {longest} tokens is longer than the model's max_position_embeddings {limit}; lower max_length"
            )));
        }
        Ok(())
    }

    /// Runs a pass with memory from `pool`. On a CPU it runs on a rayon thread, where spawning tasks is cheapest.
    fn run<R: Send>(&self, device: &Device, pool: &Arc<Pool>, pass: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        match kernels::of(device)? {
            Some(_) => pool.during(pass),
            None => rayon::scope(|_| pool.during(pass)),
        }
    }

    /// Embeds `ids`: [N, D].
    fn embed(&self, weights: &dyn WeightSource, ids: &[u32]) -> Result<Tensor> {
        let layer = Unsharded::new(weights, 0, Some(1))?;
        let table = self.layout.required(&layer.buffer, 0, &[Part::Embedding])?;
        let scale = EmbeddingScale::of(&self.config.architecture);
        Ok(scale.apply(embedding::forward(ids, &table)?, table.dtype())?)
    }

    /// Block `index`, with its adapter if any. Prefetches layer `next`.
    fn block<'a>(
        &self,
        weights: &'a dyn WeightSource,
        index: usize,
        next: Option<usize>,
    ) -> Result<(Vec<Unsharded<'a>>, BlockWeights)> {
        let layer = Unsharded::new(weights, index + 1, next)?;
        let adapter = match weights.adapter() {
            Some(AdapterWeights { places, weights }) => Some((Unsharded::new(weights, index + 1, next)?, places)),
            None => None,
        };
        let of_adapter = adapter.as_ref().map(|(layer, places)| (&layer.buffer, *places));
        let block = BlockWeights::of(&layer.buffer, &self.layout, of_adapter, index + 1)?;
        let layers = [layer].into_iter().chain(adapter.map(|(layer, _)| layer)).collect();
        Ok((layers, block))
    }

    /// The final norm and the head. Prefetches layer `next`.
    fn head<'a>(&self, weights: &'a dyn WeightSource, next: Option<usize>) -> Result<Head<'a>> {
        Head::new(weights, &self.layout, &self.config.architecture, next)
    }

    /// ln p(target) of each target under its distribution, without saving activations.
    ///
    /// # Errors
    /// A token outside the vocabulary, a greedy distribution, a sequence longer than `max_position_embeddings`, rows outside the batch,
    /// weights of another layout, or a failure of the weight source.
    pub fn log_probs(&self, weights: &dyn WeightSource, batch: &PackedBatch, targets: &Targets) -> Result<Vec<f32>> {
        self.check(weights, batch, targets)?;
        self.without_saving(weights, batch, &targets.rows, |normed, head| {
            Ok(log_prob::values(normed, head, targets)?.to_vec1()?)
        })
    }

    /// The logits of `rows` of the batch, [R, V], f32, on the weights' device. The whole matrix is materialized.
    ///
    /// # Errors
    /// As [`Network::log_probs`].
    pub fn logits(&self, weights: &dyn WeightSource, batch: &PackedBatch, rows: &[u32]) -> Result<Tensor> {
        self.check(
            weights,
            batch,
            &Targets { rows: rows.to_vec(), tokens: vec![0; rows.len()], ..Targets::default() },
        )?;
        self.without_saving(weights, batch, rows, |normed, head| {
            Ok(matmul::linear(normed, head)?.to_dtype(candle_core::DType::F32)?)
        })
    }

    /// Computes `end` from the normed outputs of `rows`, [R, D], and the head, without saving activations.
    fn without_saving<R: Send>(
        &self,
        weights: &dyn WeightSource,
        batch: &PackedBatch,
        rows: &[u32],
        end: impl FnOnce(&Tensor, &Tensor) -> Result<R> + Send,
    ) -> Result<R> {
        // A temporary pool, so that a reference model holds no memory between passes.
        self.run(weights.device(), &Arc::default(), || {
            let shape = self.shape(batch, weights.device())?;
            let mut x = self.embed(weights, &batch.ids)?;
            for index in 0..self.config.architecture.num_hidden_layers {
                let (_layers, block) = self.block(weights, index, Some(index + 2))?;
                let (y, saved) = train_block::forward(x, &block, &shape, index)?;
                recycle(saved.into_input()?)?;
                x = y;
            }
            let rows = embedding::forward(rows, &x)?;
            let head = self.head(weights, None)?;
            end(&rms_norm::forward_for(&head.matrix, &rows, &head.norm, shape.norm)?, &head.matrix)
        })
    }

    /// [`Network::log_probs`] that saves the activations for [`Network::backward`].
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
            let count = self.config.architecture.num_hidden_layers;
            let recomputed = count - keep.kept_of(count);
            let mut blocks = Vec::with_capacity(count);
            for index in 0..count {
                let (_layers, block) = self.block(weights, index, Some(index + 2))?;
                let (y, saved) = train_block::forward(x, &block, &shape, index)?;
                blocks.push(match index < recomputed {
                    true => Saved::Input(saved.into_input()?),
                    false => Saved::All(Box::new(saved)),
                });
                x = y;
            }
            // The head and the blocks do not need their memory at the same time.
            self.pool.free_tensors();
            // Only rows with a target go through the final norm and the head.
            let rows_md = embedding::forward(&targets.rows, &x)?;
            recycle(x)?;
            let end = self.head(weights, None)?;
            let normed_md = rms_norm::forward_for(&end.matrix, &rows_md, &end.norm, shape.norm)?;
            let log_probs = log_prob::forward(&normed_md, &end.matrix, &targets)?;
            Ok(Forward { batch, shape, targets, blocks, rows_md, normed_md, log_probs })
        })
    }

    /// Accumulates the gradients of all parameters into `gradients`, except those frozen in its layout. `upstream` is
    /// ∂loss/∂(log-probability) of each target, `[M]`, f32, on the weights' device. `weights` must be those of the forward pass.
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
        let trained = weights.adapter().map_or(&self.layout, |adapter| adapter.places.layout());
        if !trained.has_tensors_of(gradients.layout()) {
            return Err(Error::Config("the gradients have another layout than the parameters".into()));
        }
        self.run(weights.device(), &self.pool, || self.layers_backward(weights, forward, upstream, gradients))?;
        self.pool.trim();
        Ok(())
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
            let head_grad = match self.config.architecture.is_tied() {
                true => self.gradient(gradients, 0, Part::Embedding)?,
                false => self.gradient(gradients, self.last(), Part::Head)?,
            };
            let of_head = |dhead: Option<&Tensor>| {
                Ok(log_prob::backward(log_probs, &normed_md, &end.matrix, &targets, upstream, dhead)?)
            };
            let dnormed = match &head_grad {
                Some(head_grad) => end.backward(head_grad, |dhead| of_head(Some(dhead)))?,
                None => of_head(None)?,
            };
            let norm_grad = match self.gradient(gradients, self.last(), Part::FinalNorm)? {
                Some(gradient) => gradient,
                // A by-product of the gradient of the norm's input, which is dropped.
                None => Tensor::zeros(end.norm.shape(), DType::F32, end.norm.device())?,
            };
            let drows = LogitScale::of(&self.config.architecture).backward(&norm_grad, |norm_grad| {
                rms_norm::backward(&rows_md, &end.norm, shape.norm, &dnormed, None, norm_grad)
            })?;
            for tensor in [normed_md, rows_md, dnormed] {
                recycle(tensor)?;
            }
            drows
        };
        gradients.complete(self.last())?;
        let mut dx = zeros((batch.len(), self.config.architecture.hidden_size), &drows)?;
        embedding::backward(&targets.rows, &drows, &dx)?;
        recycle(drows)?;
        self.pool.free_tensors();
        while let Some(saved) = blocks.pop() {
            let index = blocks.len();
            {
                let (_layers, block) = self.block(weights, index, Some(index).filter(|below| *below > 0))?;
                let saved = match saved {
                    Saved::All(saved) => *saved,
                    Saved::Input(x) => train_block::recompute(x, &block, &shape, index)?,
                };
                let (buffer, add) = gradients.block_buffer(index + 1)?;
                let grads = match weights.adapter() {
                    Some(adapter) => BlockGradients::of_adapter(&buffer, add, adapter.places, &block, index + 1)?,
                    None => BlockGradients::of(&buffer, add, gradients.layout(), index + 1)?,
                };
                dx = train_block::backward(saved, dx, &block, &grads, &shape, index)?;
            }
            gradients.complete(index + 1)?;
        }
        let dx = EmbeddingScale::of(&self.config.architecture).apply(dx, weights.dtype().into())?;
        if let Some(gradient) = self.gradient(gradients, 0, Part::Embedding)? {
            embedding::backward(&batch.ids, &dx, &gradient)?;
        }
        recycle(dx)?;
        gradients.complete(0)
    }

    /// The gradient accumulator of a part of the first or last layer; `None` if it is frozen. The layout of adapter gradients
    /// has none of these parts.
    fn gradient(&self, gradients: &dyn GradientSink, layer: usize, part: Part) -> Result<Option<Tensor>> {
        match gradients.layout().update(layer, part) {
            Some(Update::Trained) => self.layout.required(&gradients.buffer(layer)?, layer, &[part]).map(Some),
            Some(Update::Frozen) | None => Ok(None),
        }
    }
}
