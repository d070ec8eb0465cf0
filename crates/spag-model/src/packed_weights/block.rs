//! The weights of a block, packed for generation.

use candle_core::{DType, Device, Tensor};

use super::memory::{PackedMemory, copied_to, packed};
use crate::config::Architecture;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::params::{BlockNorms, Layout, Part};
use spag_ops::cast::{converted, in_compute_dtype};
use spag_ops::kernels::{self, SumOrder};
use spag_ops::low_rank::{self, AdaptedRows};
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::quantised::BlockFormat;
use spag_ops::{bias, cpu};

/// A linear layer, or several stacked ones with the same input.
pub(crate) struct PackedLinear {
    weight: PackedWeight,
    bias: Option<Tensor>,
}

impl PackedLinear {
    /// `x` [N, I], `residual` [N, O] → [N, O]; kernels overwrite the residual. Adapters modify their own rows.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        adapted: &[AdaptedRows<'_>],
        order: SumOrder,
    ) -> candle_core::Result<Tensor> {
        let y = packed_linear::forward(x, &self.weight, residual, order)?;
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
pub(crate) struct PackedBlock {
    pub(crate) norms: BlockNorms,
    /// Query, key and value projections, stacked.
    pub(crate) qkv: PackedLinear,
    /// Norms of queries and of keys.
    pub(crate) head_norms: Option<(Tensor, Tensor)>,
    pub(crate) o: PackedLinear,
    /// Gate and up projections, stacked.
    pub(crate) gate_up: PackedLinear,
    pub(crate) down: PackedLinear,
}

impl PackedBlock {
    /// Packs a layer.
    pub(super) fn new(parts: &LayerParts<'_>, memory: PackedMemory) -> Result<Self> {
        let (norms, head_norms, biases) = (parts.norms()?, parts.head_norms()?, parts.biases()?);
        // Last, since packing may take the layer's memory.
        let weights = match parts.stored {
            [] => packed(&parts.weights()?, memory, parts.device)?,
            _ => Place::ALL.iter().map(|place| parts.packed(place.parts(), memory)).collect::<Result<_>>()?,
        };
        let mut linears = weights.into_iter().zip(biases).map(|(weight, bias)| PackedLinear { weight, bias });
        let (Some(qkv), Some(o), Some(gate_up), Some(down)) =
            (linears.next(), linears.next(), linears.next(), linears.next())
        else {
            return Err(Error::Config(format!("layer {} has too few weights", parts.layer)));
        };
        Ok(Self { norms, qkv, head_norms, o, gate_up, down })
    }

    /// Repacks other weights in the memory of these.
    pub(crate) fn refresh(&mut self, parts: &LayerParts<'_>) -> Result<()> {
        (self.norms, self.head_norms) = (parts.norms()?, parts.head_norms()?);
        let linears = [&mut self.qkv, &mut self.o, &mut self.gate_up, &mut self.down];
        for ((linear, weight), bias) in linears.into_iter().zip(parts.weights()?).zip(parts.biases()?) {
            linear.weight.repack(&weight)?;
            linear.bias = bias;
        }
        Ok(())
    }
}

/// A packed linear layer of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Qkv,
    Output,
    GateUp,
    Down,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Qkv, Self::Output, Self::GateUp, Self::Down];

    /// The stacked parts.
    pub(crate) fn parts(self) -> &'static [Part] {
        match self {
            Self::Qkv => &[Part::Query, Part::Key, Part::Value],
            Self::Output => &[Part::Output],
            Self::GateUp => &[Part::Gate, Part::Up],
            Self::Down => &[Part::Down],
        }
    }
}

/// A quantised matrix in its file format, with rows in the model's order.
pub(crate) struct StoredMatrix {
    pub(crate) part: Part,
    pub(crate) format: BlockFormat,
    /// Rows and columns.
    pub(crate) extents: (usize, usize),
    pub(crate) bytes: Vec<u8>,
}

impl StoredMatrix {
    pub(crate) fn pack(&self) -> Result<PackedWeight> {
        Ok(PackedWeight::stored(self.format, self.extents, &self.bytes)?)
    }
}

/// The parts of a layer's buffer in the form that generation needs.
pub(crate) struct LayerParts<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) buffer: &'a Tensor,
    /// The engine's device. The buffer is on it, or on the host if its matrices are quantised.
    pub(crate) device: &'a Device,
    pub(crate) layer: usize,
    /// Number format of the engine's weights, to which small tensors are converted first.
    pub(crate) dtype: DType,
    /// Matrices that are packed without conversion; the buffer has zeros in their place.
    pub(crate) stored: &'a [StoredMatrix],
}

/// A layer that was loaded.
pub(crate) struct LoadedLayer {
    /// The layout of this layer alone.
    pub(crate) layout: Layout,
    /// Its tensors, except those of `stored`.
    pub(crate) buffer: Tensor,
    pub(crate) stored: Vec<StoredMatrix>,
}

impl LoadedLayer {
    pub(super) fn parts<'a>(&'a self, device: &'a Device) -> LayerParts<'a> {
        let (layout, buffer, stored) = (&self.layout, &self.buffer, &self.stored[..]);
        LayerParts { layout, buffer, device, layer: 0, dtype: buffer.dtype(), stored }
    }
}

impl LayerParts<'_> {
    /// Consecutive parts as one tensor that shares the memory of the buffer.
    fn dense(&self, parts: &[Part]) -> Result<Tensor> {
        self.layout.required(self.buffer, self.layer, parts)
    }

    /// Consecutive norms or biases as one tensor, copied, in the format that ops accept.
    fn small(&self, parts: &[Part]) -> Result<Option<Tensor>> {
        let Some(stored) = self.layout.joined(self.buffer, self.layer, parts)? else { return Ok(None) };
        if !self.device.same_device(stored.device()) {
            return Ok(Some(copied_to(&converted(&stored, self.dtype)?, self.device)?));
        }
        Ok(Some(unshared(&in_compute_dtype(&converted(&stored, self.dtype)?)?)?))
    }

    /// A required norm of the layer.
    pub(crate) fn norm(&self, part: Part) -> Result<Tensor> {
        let layer = self.layer;
        self.small(&[part])?.ok_or_else(|| Error::Config(format!("the layout of layer {layer} has no {part:?}")))
    }

    /// A matrix of the layer.
    pub(crate) fn matrix(&self, part: Part) -> Result<Tensor> {
        self.dense(&[part])
    }

    fn norms(&self) -> Result<BlockNorms> {
        BlockNorms::of(|part| self.small(&[part]))
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

    fn weights(&self) -> Result<Vec<Tensor>> {
        Place::ALL.iter().map(|place| self.dense(place.parts())).collect()
    }

    /// A linear layer, with matrices in their stored format.
    fn packed(&self, parts: &[Part], memory: PackedMemory) -> Result<PackedWeight> {
        let of = |part: Part| self.stored.iter().find(|matrix| matrix.part == part);
        if parts.iter().all(|part| of(*part).is_none()) {
            let mut packed = packed(&[self.dense(parts)?], memory, self.device)?;
            return packed.pop().ok_or_else(|| Error::Config(format!("layer {} has too few weights", self.layer)));
        }
        // Adjacent matrices of one format are merged, to launch fewer products.
        let mut weights = Vec::new();
        let mut pending: Option<StoredMatrix> = None;
        for part in parts {
            match (of(*part), &mut pending) {
                (Some(matrix), Some(last)) if matrix.format == last.format => {
                    last.extents.0 += matrix.extents.0;
                    last.bytes.extend_from_slice(&matrix.bytes);
                }
                (found, last) => {
                    weights.extend(last.take().map(|last| last.pack()).transpose()?);
                    match found {
                        Some(StoredMatrix { part, format, extents, bytes }) => {
                            let (part, format, extents, bytes) = (*part, *format, *extents, bytes.clone());
                            *last = Some(StoredMatrix { part, format, extents, bytes });
                        }
                        None => weights.push(PackedWeight::new(&self.dense(&[*part])?)?),
                    }
                }
            }
        }
        weights.extend(pending.map(|last| last.pack()).transpose()?);
        Ok(PackedWeight::stack(weights)?)
    }
}

/// Extra bytes for packing an unshared model on a CPU: those of the largest layer that cannot be packed in place.
pub(crate) fn packing_bytes(model: &Architecture, layout: &Layout, dtype: WeightDtype) -> u64 {
    let (d, qkv) = (model.hidden_size, model.query_size() + 2 * model.kv_size());
    let fits = |rows: &[usize]| rows.iter().all(|rows| PackedWeight::fits_in_place(*rows));
    // The layer after the embedding represents all blocks.
    let block = layout.layers.get(1).map_or(0, |block| block.len);
    let block = if fits(&[qkv, d, 2 * model.intermediate_size]) { 0 } else { block };
    let head = if fits(&[model.vocab_size]) { 0 } else { model.vocab_size * d };
    (block.max(head) as u64).saturating_mul(dtype.bytes() as u64)
}

/// A copy of a small tensor, so that its layer can be freed or packed.
pub(crate) fn unshared(tensor: &Tensor) -> candle_core::Result<Tensor> {
    match kernels::of(tensor.device())? {
        None => cpu::read(tensor, |values| Tensor::from_slice(values, tensor.dims(), &Device::Cpu)),
        Some(_) => tensor.force_contiguous(),
    }
}
