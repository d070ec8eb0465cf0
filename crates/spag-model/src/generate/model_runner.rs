//! Packed weights and the forward pass of generation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use super::adapters::{AdapterRows, PackedAdapter};
use super::graphs::{self, GraphCache, Inputs};
use super::kv::KvCache;
use crate::error::{Error, Result};
use crate::model::block::{self, BlockPass, Used};
use crate::model::{AttentionShape, EmbeddingScale, LengthClass, LengthClasses, Model, Quantisation};
use crate::packed_weights::{PackedBlock, PackedWeights, Place};
use crate::params::{AdapterWeights, Layout, Part, WeightSource};
use spag_ops::cast::round_columns;
use spag_ops::kernels::{self, SumOrder};
use spag_ops::paged_attention::{self, Span};
use spag_ops::pool::{Pool, recycle};
use spag_ops::rope::Positions;
use spag_ops::sample::{self, SampleError, ScoreParams, TokenLogProb};
use spag_ops::{embedding, head_norm, rms_norm};

/// The weights, packed for generation.
pub(super) struct ModelRunner {
    layout: Layout,
    /// Quantised weights are those of the loaded model, possibly shared with other engines.
    weights: Arc<PackedWeights>,
    embedding_scale: EmbeddingScale,
    /// Number format of the weights.
    dtype: DType,
    device: Device,
    quantisation: Option<Quantisation>,
    shape: AttentionShape,
    order: SumOrder,
    pool: Arc<Pool>,
    graphs: GraphCache,
}

/// The rows of a forward pass that are returned as logits or scored.
pub(super) struct LogitRows<'a> {
    /// Rows whose logits are returned.
    pub(super) last: &'a [u32],
    /// Other rows, with the tokens to score.
    pub(super) scored: &'a [ScoreParams],
}

/// Output of a forward pass.
pub(super) struct ForwardOutput {
    /// Log-probabilities of the scored rows, in their order.
    pub(super) scored: Vec<std::result::Result<TokenLogProb, SampleError>>,
    /// Logits of the requested rows, [R, V]; `None` if no row was requested.
    pub(super) logits: Option<Tensor>,
    /// Time of attention and RoPE; on a GPU, the time to launch them.
    pub(super) attention: Duration,
}

/// The pass over one block.
struct GeneratePass<'a, 'b> {
    block: &'a PackedBlock,
    shape: &'a AttentionShape,
    layer: usize,
    inputs: &'a Inputs<'b>,
    adapters: &'a AdapterRows<'a>,
    cache: &'a KvCache,
    order: SumOrder,
    attention: Duration,
}

impl BlockPass for GeneratePass<'_, '_> {
    fn norm(&mut self, weight: Part, x: &Tensor) -> candle_core::Result<Tensor> {
        rms_norm::forward(x, self.block.norms.get(weight)?, self.shape.norm)
    }

    fn attend(&mut self, input: &Tensor) -> candle_core::Result<Tensor> {
        let (heads, norm) = (self.shape.heads, self.shape.norm);
        let qkv = self.block.qkv.forward(input, None, &self.adapters.at(self.layer, Place::Qkv), self.order)?;
        let (queries, rotated) = (heads.query * heads.dim, (heads.query + heads.kv) * heads.dim);
        if let Some((q_norm, k_norm)) = &self.block.head_norms {
            head_norm::forward_columns(&qkv, 0..queries, q_norm, norm)?;
            head_norm::forward_columns(&qkv, queries..rotated, k_norm, norm)?;
        }
        let (keys, values) = (&self.cache.keys[self.layer], &self.cache.values[self.layer]);
        let (plan, began) = (&self.inputs.plan, Instant::now());
        match (&self.shape.ropes[self.layer], &self.inputs.positions) {
            (Some(table), Some(positions)) => {
                paged_attention::append_rotated(&qkv, keys, values, plan, (positions, table))?;
            }
            _ => paged_attention::append(&qkv, keys, values, plan)?,
        }
        // Rounded as the training pass stores them, so that log-probabilities are identical.
        round_columns(&qkv, 0..queries, keys.dtype())?;
        let attended = paged_attention::forward(&qkv, keys, values, plan, &self.shape.masks[self.layer])?;
        self.attention += began.elapsed();
        recycle(qkv)?;
        Ok(attended)
    }

    fn project(&mut self, attended: &Tensor, residual: Option<&Tensor>) -> candle_core::Result<Tensor> {
        self.block.o.forward(attended, residual, &self.adapters.at(self.layer, Place::Output), self.order)
    }

    fn activate(&mut self, input: &Tensor) -> candle_core::Result<Tensor> {
        let gate_up =
            self.block.gate_up.forward(input, None, &self.adapters.at(self.layer, Place::GateUp), self.order)?;
        round_columns(&gate_up, 0..gate_up.dim(1)?, self.cache.keys[self.layer].dtype())?;
        let activated = self.shape.activation.forward_joined(&gate_up)?;
        recycle(gate_up)?;
        Ok(activated)
    }

    fn down(&mut self, activated: &Tensor, residual: Option<&Tensor>) -> candle_core::Result<Tensor> {
        self.block.down.forward(activated, residual, &self.adapters.at(self.layer, Place::Down), self.order)
    }

    fn add_normed(&mut self, weight: Part, output: Tensor, residual: &Tensor) -> candle_core::Result<Tensor> {
        let sum = rms_norm::forward_add(residual, &output, self.block.norms.get(weight)?, self.shape.norm)?;
        recycle(output)?;
        Ok(sum)
    }

    fn used(&mut self, _which: Used, tensor: Tensor) -> candle_core::Result<()> {
        recycle(tensor)
    }
}

impl ModelRunner {
    /// Packs a model layer by layer, freeing each layer after it is packed.
    pub(super) fn new(model: Model, order: SumOrder) -> Result<Self> {
        let device = model.parameters().device().clone();
        let (layout, dtype) = (model.parameters().layout().clone(), model.parameters().dtype().into());
        let embedding_scale = EmbeddingScale::of(&model.config().architecture);
        let (quantisation, shape) = (model.quantisation(), model.network().attention_shape().clone());
        let weights = match model.packed() {
            Some(weights) => weights.clone(),
            None => {
                let (architecture, format) = (model.config().architecture.clone(), model.block_format());
                Arc::new(PackedWeights::of_parameters(&architecture, model.into_parameters(), format)?)
            }
        };
        Ok(Self {
            layout,
            weights,
            embedding_scale,
            dtype,
            device,
            quantisation,
            shape,
            order,
            pool: Arc::default(),
            graphs: GraphCache::default(),
        })
    }

    /// Number format of the KV cache: that of the weights.
    pub(super) fn cache_dtype(&self) -> DType {
        self.dtype
    }

    /// Checks that the weights can be replaced by these.
    ///
    /// # Errors
    /// Quantised weights, for which only an adapter can be replaced, or another layout; the error names the first tensor that
    /// differs.
    pub(super) fn check_refresh(&self, weights: &dyn WeightSource) -> Result<()> {
        if let (Some(quantisation), None) = (self.quantisation, weights.adapter()) {
            return Err(Error::Generation(format!(
                "the engine's weights are quantised ({quantisation}) and cannot be refreshed; create an engine with weights that are not \
                 quantised"
            )));
        }
        match self.layout.difference(weights.layout()) {
            None => Ok(()),
            Some(difference) => Err(Error::Config(format!(
                "the new weights are of another architecture than the engine's model: {difference}; create another engine"
            ))),
        }
    }

    /// Repacks other weights of the same layout layer by layer, in the memory of the packed ones; for kernels, a new layer
    /// replaces each old one. On failure, some layers are new and others old.
    pub(super) fn refresh(&mut self, weights: &dyn WeightSource) -> Result<()> {
        // Captured graphs refer to the old weights' memory.
        self.graphs = GraphCache::default();
        let Some(own) = Arc::get_mut(&mut self.weights) else {
            return Err(Error::Generation("another engine has the same weights, which cannot be refreshed".into()));
        };
        own.refresh(&self.layout, weights, (&self.device, self.dtype))
    }

    /// The device of the weights.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Why decoding passes run eagerly although the device supports graphs.
    pub(super) fn capture_failure(&self) -> Option<String> {
        self.graphs.failure()
    }

    /// The number of tokens with an embedding and a logit.
    pub(super) fn vocabulary(&self) -> usize {
        self.weights.head.outputs()
    }

    /// Packs an adapter in the number format of the weights.
    ///
    /// # Errors
    /// The adapter is for another architecture, or out of memory.
    pub(super) fn pack_adapter(&self, adapter: AdapterWeights<'_>, root: u64) -> Result<PackedAdapter> {
        PackedAdapter::new(adapter, &self.layout, (&self.device, self.dtype), root)
    }

    /// Tells the classes of sequences.
    pub(super) fn lengths(&self) -> LengthClasses {
        self.shape.lengths
    }

    /// Runs the model on the tokens `ids` of the `spans`, each with the class of its sequence, writes their keys and values to the cache, and returns the
    /// logits and log-probabilities of `rows`.
    pub(super) fn forward(
        &self,
        ids: &[u32],
        (spans, classes): (&[Span<'_>], &[LengthClass]),
        adapters: &AdapterRows<'_>,
        rows: &LogitRows<'_>,
        cache: &KvCache,
    ) -> Result<ForwardOutput> {
        match kernels::of(&self.device)? {
            // Graphs keep the memory of their tensors, but residual additions would replace it.
            Some(_) => self.pass(ids, (spans, classes), adapters, rows, cache),
            None => self.pool.during(|| self.pass(ids, (spans, classes), adapters, rows, cache)),
        }
    }

    fn pass(
        &self,
        ids: &[u32],
        (spans, classes): (&[Span<'_>], &[LengthClass]),
        adapters: &AdapterRows<'_>,
        rows: &LogitRows<'_>,
        cache: &KvCache,
    ) -> Result<ForwardOutput> {
        let last = rows.last;
        // All rows need logits, as in decoding, whose passes repeat and can be captured. Passes with adapters are excluded:
        // their launches vary.
        let repeats = last.len() == ids.len() && adapters.is_empty();
        let padded = match kernels::of(&self.device)? {
            Some(_) if repeats => graphs::padded_rows(ids.len()),
            _ => ids.len(),
        };
        let mut ids = ids.to_vec();
        ids.resize(padded, 0);
        let embedded = self.weights.embed(&ids)?;
        let inputs = Inputs {
            x: self.embedding_scale.apply(embedded, self.dtype)?,
            positions: self.positions((spans, classes), padded)?,
            plan: cache.plan(spans, padded)?,
        };
        if repeats {
            let (logits, attention) = self.graphs.pass(inputs, |inputs| {
                let (x, attention) = self.layers(inputs, adapters, cache)?;
                Ok((self.logits(x)?, attention))
            })?;
            let logits = if padded > last.len() { logits.narrow(0, 0, last.len())? } else { logits };
            return Ok(ForwardOutput { scored: Vec::new(), logits: Some(logits), attention });
        }
        let (x, attention) = self.layers(&inputs, adapters, cache)?;
        let scored = self.score(&x, rows.scored)?;
        if last.is_empty() {
            recycle(x)?;
            return Ok(ForwardOutput { scored, logits: None, attention });
        }
        let rows = embedding::forward(last, &x)?;
        recycle(x)?;
        Ok(ForwardOutput { scored, logits: Some(self.logits(rows)?), attention })
    }

    /// Log-probabilities of rows of the last block's output `x`. Only one chunk of logits is materialized at a
    /// time.
    fn score(
        &self,
        x: &Tensor,
        scored: &[ScoreParams],
    ) -> candle_core::Result<Vec<std::result::Result<TokenLogProb, SampleError>>> {
        let mut all = Vec::with_capacity(scored.len());
        for chunk in scored.chunks(sample::scored_rows(self.vocabulary())) {
            let rows: Vec<u32> = chunk.iter().map(|params| params.row as u32).collect();
            let rows = embedding::forward(&rows, x)?;
            let normed = rms_norm::forward(&rows, &self.weights.norm, self.shape.norm)?;
            recycle(rows)?;
            let logits = self.weights.head.forward(&normed, self.order)?;
            recycle(normed)?;
            let within: Vec<ScoreParams> =
                chunk.iter().enumerate().map(|(row, params)| ScoreParams { row, ..*params }).collect();
            all.extend(sample::score(&logits, &within)?);
            recycle(logits)?;
        }
        Ok(all)
    }

    /// The positions of `padded` rows, for RoPE.
    fn positions(&self, (spans, classes): (&[Span<'_>], &[LengthClass]), padded: usize) -> Result<Option<Positions>> {
        let of_span = |(span, class): (&Span<'_>, &LengthClass)| {
            let (positions, class) = (span.position..span.position + span.rows.len(), *class);
            positions.map(move |at| (at as u32, class))
        };
        let rows = spans.iter().zip(classes).flat_map(of_span);
        let padding = std::iter::repeat((0, LengthClass::default()));
        Ok(self.shape.positions(rows.chain(padding).take(padded), self.device())?)
    }

    /// The output of the last block, and the time of attention.
    fn layers(
        &self,
        inputs: &Inputs<'_>,
        adapters: &AdapterRows<'_>,
        cache: &KvCache,
    ) -> candle_core::Result<(Tensor, Duration)> {
        let (mut x, mut attention) = (inputs.x.clone(), Duration::ZERO);
        for (layer, block) in self.weights.blocks.iter().enumerate() {
            let (shape, order, attended) = (&self.shape, self.order, Duration::ZERO);
            let mut pass = GeneratePass { block, shape, layer, inputs, adapters, cache, order, attention: attended };
            x = block::forward(x, self.shape.norms, &mut pass)?;
            attention += pass.attention;
        }
        Ok((x, attention))
    }

    /// Logits of rows of the last block's output.
    fn logits(&self, rows: Tensor) -> candle_core::Result<Tensor> {
        let normed = rms_norm::forward(&rows, &self.weights.norm, self.shape.norm)?;
        recycle(rows)?;
        let logits = self.weights.head.forward(&normed, self.order)?;
        recycle(normed)?;
        Ok(logits)
    }
}
