//! The weights of a block, packed for generation.

use candle_core::{DType, Device, Tensor};

use crate::checkpoint::WeightDtype;
use crate::config::Architecture;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::model::linear::{LinearWeight, PackedMemory};
use crate::params::{Layout, Part, WeightSource};
use spag_ops::cast::{converted, in_compute_dtype};
use spag_ops::kernels;
use spag_ops::low_rank::{self, AdaptedRows};
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::{bias, cpu};

/// A linear layer, or several with the same input as one.
pub(super) struct PackedLinear {
    weight: PackedWeight,
    bias: Option<Tensor>,
}

impl PackedLinear {
    /// `x` [N, I], `residual` [N, O] → [N, O]. Adapters change their own rows.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        adapted: &[AdaptedRows<'_>],
    ) -> candle_core::Result<Tensor> {
        let y = packed_linear::forward(x, &self.weight, residual)?;
        if !adapted.is_empty() {
            low_rank::add(x, &y, adapted)?;
        }
        if let Some(bias) = &self.bias {
            bias::add(&y, bias)?;
        }
        Ok(y)
    }
}

/// The weights of a block.
pub(super) struct PackedBlock {
    /// The norms that the block has.
    norms: Vec<(Part, Tensor)>,
    /// Query, key and value projections, stacked.
    pub(super) qkv: PackedLinear,
    /// Norms of queries, and of keys.
    pub(super) head_norms: Option<(Tensor, Tensor)>,
    pub(super) o: PackedLinear,
    /// Gate and up projections, stacked.
    pub(super) gate_up: PackedLinear,
    pub(super) down: PackedLinear,
}

impl PackedBlock {
    /// Packs a layer: in its own memory if nothing else uses the parameters.
    pub(super) fn new(model: &Model, layer: usize) -> Result<Self> {
        let parameters = model.parameters();
        let parts = LayerParts {
            layout: parameters.layout(),
            buffer: &parameters.unshard(layer, None)?,
            layer,
            dtype: parameters.dtype().into(),
        };
        let (norms, head_norms, biases) = (parts.norms()?, parts.head_norms()?, parts.biases()?);
        // Last, since the memory of the layer may go with them.
        let weights = parts.weights()?;
        let memory = match model.block_format() {
            Some(format) => PackedMemory::Quantised(format),
            None if parameters.is_shared() => PackedMemory::Own,
            None => PackedMemory::OfWeights,
        };
        let mut linears = LinearWeight::pack(&weights, memory)?
            .into_iter()
            .zip(biases)
            .map(|(weight, bias)| PackedLinear { weight, bias });
        let (Some(qkv), Some(o), Some(gate_up), Some(down)) =
            (linears.next(), linears.next(), linears.next(), linears.next())
        else {
            return Err(Error::Config(format!("layer {layer} has too few weights")));
        };
        Ok(Self { norms, qkv, head_norms, o, gate_up, down })
    }

    /// A norm that the block has.
    pub(super) fn norm(&self, part: Part) -> candle_core::Result<&Tensor> {
        match self.norms.iter().find(|(own, _)| *own == part) {
            Some((_, norm)) => Ok(norm),
            None => candle_core::bail!("a block has no {part:?}"),
        }
    }

    /// Packs other weights in the memory of these.
    pub(super) fn refresh(&mut self, parts: &LayerParts<'_>) -> Result<()> {
        (self.norms, self.head_norms) = (parts.norms()?, parts.head_norms()?);
        let linears = [&mut self.qkv, &mut self.o, &mut self.gate_up, &mut self.down];
        for ((linear, weight), bias) in linears.into_iter().zip(parts.weights()?).zip(parts.biases()?) {
            weight.repack(&mut linear.weight)?;
            linear.bias = bias;
        }
        Ok(())
    }
}

/// The parts of a layer's buffer as generation wants them.
pub(super) struct LayerParts<'a> {
    pub(super) layout: &'a Layout,
    pub(super) buffer: &'a Tensor,
    pub(super) layer: usize,
    /// Number format of the engine's weights, to which small tensors are converted first.
    pub(super) dtype: DType,
}

impl LayerParts<'_> {
    /// Consecutive parts as one tensor that shares the memory of the buffer.
    fn stored(&self, parts: &[Part]) -> Result<Tensor> {
        let Self { layout, buffer, layer, .. } = *self;
        let stored = layout.joined(buffer, layer, parts)?;
        stored.ok_or_else(|| Error::Config(format!("the layout of layer {layer} has no {parts:?} side by side")))
    }

    /// Consecutive norms or biases as one tensor with memory of its own, in the format that ops accept.
    fn small(&self, parts: &[Part]) -> Result<Option<Tensor>> {
        let Some(stored) = self.layout.joined(self.buffer, self.layer, parts)? else { return Ok(None) };
        Ok(Some(unshared(&in_compute_dtype(&converted(&stored, self.dtype)?)?)?))
    }

    /// A norm that every layer of the kind has.
    pub(super) fn norm(&self, part: Part) -> Result<Tensor> {
        let layer = self.layer;
        self.small(&[part])?.ok_or_else(|| Error::Config(format!("the layout of layer {layer} has no {part:?}")))
    }

    /// A matrix of the layer.
    pub(super) fn matrix(&self, part: Part) -> Result<Tensor> {
        self.stored(&[part])
    }

    fn norms(&self) -> Result<Vec<(Part, Tensor)>> {
        let all = [Part::AttentionNorm, Part::AttentionPostNorm, Part::MlpNorm, Part::MlpPostNorm];
        let norms = all.into_iter().map(|part| Ok(self.small(&[part])?.map(|norm| (part, norm))));
        Ok(norms.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn head_norms(&self) -> Result<Option<(Tensor, Tensor)>> {
        Ok(self.small(&[Part::QueryNorm])?.zip(self.small(&[Part::KeyNorm])?))
    }

    fn biases(&self) -> Result<[Option<Tensor>; 4]> {
        Ok([
            self.small(&[Part::QueryBias, Part::KeyBias, Part::ValueBias])?,
            self.small(&[Part::OutputBias])?,
            self.small(&[Part::GateBias, Part::UpBias])?,
            self.small(&[Part::DownBias])?,
        ])
    }

    fn weights(&self) -> Result<[LinearWeight; 4]> {
        let weight = |parts: &[Part]| Ok::<_, Error>(LinearWeight::Dense(self.stored(parts)?));
        Ok([
            weight(&[Part::Query, Part::Key, Part::Value])?,
            weight(&[Part::Output])?,
            weight(&[Part::Gate, Part::Up])?,
            weight(&[Part::Down])?,
        ])
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
pub(super) fn unshared(tensor: &Tensor) -> candle_core::Result<Tensor> {
    match kernels::of(tensor.device())? {
        None => cpu::read(tensor, |values| Tensor::from_slice(values, tensor.dims(), &Device::Cpu)),
        Some(_) => Ok(tensor.clone()),
    }
}
