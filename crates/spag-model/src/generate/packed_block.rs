//! The weights of a block, packed for generation.

use candle_core::{Device, Tensor};

use crate::checkpoint::WeightDtype;
use crate::config::Architecture;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::params::{Layout, Part};
use spag_ops::cast::in_compute_dtype;
use spag_ops::kernels;
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::{bias, cpu};

/// A linear layer, or several with the same input as one.
pub(super) struct PackedLinear {
    weight: PackedWeight,
    bias: Option<Tensor>,
}

impl PackedLinear {
    /// `x` [N, I], `residual` [N, O] → [N, O].
    pub(super) fn forward(&self, x: &Tensor, residual: Option<&Tensor>) -> candle_core::Result<Tensor> {
        let y = packed_linear::forward(x, &self.weight, residual)?;
        if let Some(bias) = &self.bias {
            bias::add(&y, bias)?;
        }
        Ok(y)
    }
}

/// The weights of a block.
pub(super) struct PackedBlock {
    pub(super) attention_norm: Tensor,
    /// Query, key and value projections, stacked.
    pub(super) qkv: PackedLinear,
    /// Norms of every head of queries, and of keys.
    pub(super) head_norms: Option<(Tensor, Tensor)>,
    pub(super) o: PackedLinear,
    pub(super) mlp_norm: Tensor,
    /// Gate and up projections, stacked.
    pub(super) gate_up: PackedLinear,
    pub(super) down: PackedLinear,
}

impl PackedBlock {
    /// Packs a layer: in its own memory if nothing else uses the parameters.
    pub(super) fn new(model: &Model, layer: usize) -> Result<Self> {
        let parameters = model.parameters();
        let norm = |part: Part| Ok::<_, Error>(alone(&model.part(layer, part)?)?);
        let bias = |parts: &[Part]| {
            let bias = parameters.joined(layer, parts)?;
            Ok::<_, Error>(bias.map(|bias| alone(&in_compute_dtype(&bias)?)).transpose()?)
        };
        let weight = |parts: &[Part]| {
            let weight = parameters.joined(layer, parts)?;
            weight.ok_or_else(|| Error::Config(format!("the layout of layer {layer} has no {parts:?} side by side")))
        };
        let (attention_norm, mlp_norm) = (norm(Part::AttentionNorm)?, norm(Part::MlpNorm)?);
        let head_norms = match parameters.part(layer, Part::QueryNorm)? {
            Some(_) => Some((norm(Part::QueryNorm)?, norm(Part::KeyNorm)?)),
            None => None,
        };
        let biases = [
            bias(&[Part::QueryBias, Part::KeyBias, Part::ValueBias])?,
            bias(&[Part::OutputBias])?,
            bias(&[Part::GateBias, Part::UpBias])?,
            bias(&[Part::DownBias])?,
        ];
        // Last, since the memory of the layer may go with them.
        let weights = [
            weight(&[Part::Query, Part::Key, Part::Value])?,
            weight(&[Part::Output])?,
            weight(&[Part::Gate, Part::Up])?,
            weight(&[Part::Down])?,
        ];
        let packed = if parameters.is_shared() {
            weights.iter().map(PackedWeight::new).collect()
        } else {
            PackedWeight::in_place(&weights)
        };
        let mut linears = packed?.into_iter().zip(biases).map(|(weight, bias)| PackedLinear { weight, bias });
        let (Some(qkv), Some(o), Some(gate_up), Some(down)) =
            (linears.next(), linears.next(), linears.next(), linears.next())
        else {
            return Err(Error::Config(format!("layer {layer} has too few weights")));
        };
        Ok(Self { attention_norm, qkv, head_norms, o, mlp_norm, gate_up, down })
    }
}

/// Bytes that packing a model, which nothing else uses, takes beside it on a CPU: those of the largest layer that cannot be
/// packed in its own memory.
pub(super) fn packing_bytes(model: &Architecture, layout: &Layout, dtype: WeightDtype) -> u64 {
    let (d, qkv) = (model.hidden_size, model.query_size() + 2 * model.kv_size());
    let fits = |rows: &[usize]| rows.iter().all(|rows| PackedWeight::fits_in_place(*rows));
    // The layer after the embedding stands for all blocks.
    let block = layout.layers.get(1).map_or(0, |block| block.len);
    let block = if fits(&[qkv, d, 2 * model.intermediate_size]) { 0 } else { block };
    let head = if fits(&[model.vocab_size]) { 0 } else { model.vocab_size * d };
    (block.max(head) as u64).saturating_mul(dtype.bytes() as u64)
}

/// A small tensor that does not share the memory of its layer, so that the layer can be freed or packed. Kernels share all
/// weights.
pub(super) fn alone(tensor: &Tensor) -> candle_core::Result<Tensor> {
    match kernels::of(tensor.device())? {
        None => cpu::read(tensor, |values| Tensor::from_slice(values, tensor.dims(), &Device::Cpu)),
        Some(_) => Ok(tensor.clone()),
    }
}
