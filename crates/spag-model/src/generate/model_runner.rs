//! Packed weights and the forward pass of generation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use super::graphs::{GraphCache, Inputs};
use super::kv::KvCache;
use crate::config::ModelConfig;
use crate::error::Result;
use crate::model::Model;
use crate::ops::attention::Mask;
use crate::ops::cast::computable;
use crate::ops::packed_linear::{self, PackedWeight};
use crate::ops::paged_attention::{self, Span};
use crate::ops::pool::{Pool, recycle};
use crate::ops::rope::{Direction, Positions, RopeTable, rotate_leading};
use crate::ops::{embedding, rms_norm, swiglu};
use crate::params::BLOCK_VIEWS;

/// Weights of a block.
struct Block {
    input_norm: Tensor,
    /// Query, key and value projections, stacked.
    qkv: PackedWeight,
    o: PackedWeight,
    post_norm: Tensor,
    /// Gate and up projections, stacked.
    gate_up: PackedWeight,
    down: PackedWeight,
}

/// The packed weights. They are copies; the model may be dropped.
pub(super) struct ModelRunner {
    embedding: Tensor,
    blocks: Vec<Block>,
    norm: Tensor,
    head: PackedWeight,
    rope: Arc<RopeTable>,
    eps: f32,
    rotated: usize,
    pool: Arc<Pool>,
    graphs: GraphCache,
}

/// Output of a forward pass.
pub(super) struct ForwardOutput {
    /// Logits of the requested rows, [R, V]; `None` if no row was requested.
    pub(super) logits: Option<Tensor>,
    /// Time of attention; on a GPU, of launching it.
    pub(super) attention: Duration,
}

impl ModelRunner {
    pub(super) fn new(model: &Model) -> Result<Self> {
        let (config, parameters): (&ModelConfig, _) = (model.config(), model.parameters());
        let blocks = (0..config.num_hidden_layers)
            .map(|index| {
                // Matrices with the same input are adjacent in the layer's buffer.
                let at = |part: &str| BLOCK_VIEWS.iter().position(|view| *view == part).unwrap_or(usize::MAX);
                let norm = |part| Ok::<_, crate::Error>(computable(&parameters.view(index + 1, at(part))?)?);
                let packed = |parts: &[&str]| {
                    let first = parts.first().map_or(usize::MAX, |part| at(part));
                    let stacked = parameters.stacked(index + 1, first..first.saturating_add(parts.len()))?;
                    Ok::<_, crate::Error>(PackedWeight::new(&computable(&stacked)?)?)
                };
                Ok(Block {
                    input_norm: norm("input_layernorm")?,
                    qkv: packed(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"])?,
                    o: packed(&["self_attn.o_proj"])?,
                    post_norm: norm("post_attention_layernorm")?,
                    gate_up: packed(&["mlp.gate_proj", "mlp.up_proj"])?,
                    down: packed(&["mlp.down_proj"])?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            embedding: model.embedding()?,
            blocks,
            norm: model.final_norm()?,
            head: PackedWeight::new(&model.head()?)?,
            rope: model.rope(),
            eps: config.rms_norm_eps as f32,
            rotated: config.hidden_size + config.kv_size(),
            pool: Arc::default(),
            graphs: GraphCache::default(),
        })
    }

    /// Number format of activations and KV cache.
    pub(super) fn dtype(&self) -> DType {
        self.embedding.dtype()
    }

    /// The device of the weights.
    pub(super) fn device(&self) -> &Device {
        self.embedding.device()
    }

    /// Computes the tokens `ids` of the `spans`, writes their keys and values to the cache, and returns the logits of
    /// the rows `last`.
    pub(super) fn forward(
        &self,
        ids: &[u32],
        spans: &[Span<'_>],
        last: &[u32],
        cache: &KvCache,
    ) -> Result<ForwardOutput> {
        self.pool.during(|| self.pass(ids, spans, last, cache))
    }

    fn pass(&self, ids: &[u32], spans: &[Span<'_>], last: &[u32], cache: &KvCache) -> Result<ForwardOutput> {
        let positions: Vec<u32> =
            spans.iter().flat_map(|span| (span.position..).take(span.rows.len()).map(|at| at as u32)).collect();
        let inputs = Inputs {
            x: embedding::forward(ids, &self.embedding)?,
            positions: Positions::new(&positions, &self.rope, self.device())?,
            plan: cache.plan(spans)?,
        };
        if last.len() == ids.len() {
            // All rows need logits, as in decoding, where passes repeat and can be captured.
            let (logits, attention) = self.graphs.pass(inputs, |inputs| {
                let (x, attention) = self.layers(inputs, cache)?;
                Ok((self.logits(x)?, attention))
            })?;
            return Ok(ForwardOutput { logits: Some(logits), attention });
        }
        let (x, attention) = self.layers(&inputs, cache)?;
        if last.is_empty() {
            recycle(x)?;
            return Ok(ForwardOutput { logits: None, attention });
        }
        let rows = embedding::forward(last, &x)?;
        recycle(x)?;
        Ok(ForwardOutput { logits: Some(self.logits(rows)?), attention })
    }

    /// Output of the last block, and the time of attention.
    fn layers(&self, inputs: &Inputs<'_>, cache: &KvCache) -> candle_core::Result<(Tensor, Duration)> {
        let Inputs { x, positions, plan } = inputs;
        let mut attention = Duration::ZERO;
        let mut x = x.clone();
        for (layer, block) in self.blocks.iter().enumerate() {
            let normed = rms_norm::forward(&x, &block.input_norm, self.eps)?;
            let qkv = packed_linear::forward(&normed, &block.qkv, None)?;
            recycle(normed)?;
            rotate_leading(&qkv, self.rotated, positions, &self.rope, Direction::Forward)?;
            let began = Instant::now();
            let (keys, values) = (&cache.keys[layer], &cache.values[layer]);
            paged_attention::append(&qkv, keys, values, plan)?;
            let attended = paged_attention::forward(&qkv, keys, values, plan, &Mask::causal())?;
            attention += began.elapsed();
            recycle(qkv)?;
            let middle = packed_linear::forward(&attended, &block.o, Some(&x))?;
            recycle(attended)?;
            recycle(x)?;
            let normed = rms_norm::forward(&middle, &block.post_norm, self.eps)?;
            let gate_up = packed_linear::forward(&normed, &block.gate_up, None)?;
            recycle(normed)?;
            let activated = swiglu::forward_joined(&gate_up)?;
            recycle(gate_up)?;
            x = packed_linear::forward(&activated, &block.down, Some(&middle))?;
            recycle(activated)?;
            recycle(middle)?;
        }
        Ok((x, attention))
    }

    /// Logits of rows of the last block's output.
    fn logits(&self, rows: Tensor) -> candle_core::Result<Tensor> {
        let normed = rms_norm::forward(&rows, &self.norm, self.eps)?;
        recycle(rows)?;
        let logits = packed_linear::forward(&normed, &self.head, None)?;
        recycle(normed)?;
        Ok(logits)
    }
}
