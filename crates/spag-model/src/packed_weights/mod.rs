//! The weights of a model, packed for generation.

mod block;
mod embedding;
mod frozen;
mod head;
mod matrices;
mod memory;

use candle_core::{DType, Device, Result as CandleResult, Tensor};

use crate::config::{Architecture, OutputHead};
use crate::error::Result;
use crate::model::LogitScale;
use crate::params::{FlatBuffers, Layout, Part, Unsharded, WeightSource};
use embedding::Embedding;
use head::Head;
use memory::{copied_to, quantised};
use spag_ops::cast::{converted, in_compute_dtype};
use spag_ops::kernels::{self, Kernels};
use spag_ops::packed_linear::PackedWeight;
use spag_ops::quantised::BlockFormat;
use spag_ops::row_norm;

pub use frozen::QuantisedLayers;
pub use matrices::ReplacedMatrix;

pub(crate) use block::{LayerParts, LoadedLayer, PackedBlock, Place, StoredMatrix, packing_bytes};
pub(crate) use matrices::{Matrices, check_inputs};
pub(crate) use memory::PackedMemory;

/// The weights of a model, packed layer by layer.
pub(crate) struct PackedWeights {
    embedding: Embedding,
    pub(crate) blocks: Vec<PackedBlock>,
    /// The final norm, with the factor of logits.
    pub(crate) norm: Tensor,
    logit_scale: LogitScale,
    pub(crate) head: Head,
}

impl std::fmt::Debug for PackedWeights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedWeights").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl PackedWeights {
    /// Packs the parameters of a model, quantised if a format is given, freeing each layer after it is packed: in place if
    /// its memory is not shared.
    pub(crate) fn of_parameters(
        architecture: &Architecture,
        mut parameters: FlatBuffers,
        format: Option<BlockFormat>,
    ) -> Result<Self> {
        let layers = architecture.num_hidden_layers;
        let memory = match format {
            Some(format) => PackedMemory::Quantised(format),
            None if parameters.is_shared() => PackedMemory::Own,
            None => PackedMemory::OfWeights,
        };
        let mut blocks = Vec::with_capacity(layers);
        for layer in 1..=layers {
            let parts = LayerParts {
                layout: parameters.layout(),
                buffer: &parameters.unshard(layer, None)?,
                device: parameters.device(),
                layer,
                dtype: parameters.dtype().into(),
                stored: &[],
            };
            blocks.push(PackedBlock::new(&parts, memory)?);
            parameters.release(layer)?;
        }
        let norm = parameters.required(layers + 1, &[Part::FinalNorm])?;
        let logit_scale = LogitScale::of(architecture);
        let norm = logit_scale.fold(block::unshared(&in_compute_dtype(&norm)?)?)?;
        let (matrix, memory) = match architecture.head {
            OutputHead::Tied => (parameters.required(0, &[Part::Embedding])?, memory),
            OutputHead::Plain => (parameters.required(layers + 1, &[Part::Head])?, memory),
            OutputHead::Normalised => {
                let normalised = row_norm::forward(&parameters.required(layers + 1, &[Part::Head])?)?;
                // It is a separate, unshared matrix.
                let memory = if memory == PackedMemory::Own { PackedMemory::OfWeights } else { memory };
                (normalised, memory)
            }
        };
        let head = Head::new(architecture.head, matrix, memory)?;
        parameters.release(layers + 1)?;
        // A quantised head is a different matrix than the embedding.
        let embedding = match architecture.is_tied() && format.is_none() {
            true => Embedding::Head,
            false => Embedding::shared(parameters.required(0, &[Part::Embedding])?),
        };
        Ok(Self { embedding, blocks, norm, logit_scale, head })
    }

    /// Packs layers for `device` while loading: `read` returns a layer of the model on the host.
    pub(crate) fn load(
        architecture: &Architecture,
        (memory, device): (PackedMemory, &Device),
        read: impl Fn(usize) -> Result<LoadedLayer>,
    ) -> Result<Self> {
        let last = architecture.num_hidden_layers + 1;
        let pack = |dense: &Tensor| match memory {
            PackedMemory::Quantised(format) => quantised(dense, format, device),
            PackedMemory::Own | PackedMemory::OfWeights => PackedWeight::new(dense),
        };
        let (mut embedding, mut tied) = (Embedding::Head, None);
        let first = read(0)?;
        match (first.stored.first(), architecture.is_tied()) {
            (Some(matrix), true) => tied = Some(matrix.pack()?),
            (Some(matrix), false) => embedding = Embedding::Quantised(matrix.pack()?),
            (None, is_tied) => {
                let rows = first.parts(device).matrix(Part::Embedding)?;
                tied = is_tied.then(|| pack(&rows)).transpose()?;
                embedding = Embedding::shared(match device.same_device(rows.device()) {
                    true => rows,
                    false => copied_to(&rows, device)?,
                });
            }
        }
        drop(first);
        let block = |layer| PackedBlock::new(&read(layer)?.parts(device), memory);
        let blocks = (1..last).map(block).collect::<Result<_>>()?;
        let layer = read(last)?;
        let logit_scale = LogitScale::of(architecture);
        let norm = logit_scale.fold(layer.parts(device).norm(Part::FinalNorm)?)?;
        let weight = match (tied, layer.stored.first(), architecture.head) {
            (Some(weight), _, _) => weight,
            (None, Some(matrix), _) => matrix.pack()?,
            (None, None, OutputHead::Normalised) => {
                pack(&row_norm::forward(&layer.parts(device).matrix(Part::Head)?)?)?
            }
            (None, None, OutputHead::Plain | OutputHead::Tied) => pack(&layer.parts(device).matrix(Part::Head)?)?,
        };
        Ok(Self { embedding, blocks, norm, logit_scale, head: Head::of_weight(architecture.head, weight) })
    }

    /// Rows of the embedding, [N, D].
    pub(crate) fn embed(&self, ids: &[u32]) -> CandleResult<Tensor> {
        self.embedding.rows(ids, &self.head)
    }

    /// Repacks other weights of the same layout layer by layer, in the same memory and number format; for kernels, a new layer
    /// replaces each old one. On failure, some layers are new and others old.
    pub(crate) fn refresh(
        &mut self,
        layout: &Layout,
        weights: &dyn WeightSource,
        (device, dtype): (&Device, DType),
    ) -> Result<()> {
        let kernels = kernels::of(device)?;
        let last = layout.layers.len().saturating_sub(1);
        for layer in 0..=last {
            let unsharded = Unsharded::new(weights, layer, Some(layer + 1).filter(|next| *next <= last))?;
            let buffer = match &kernels {
                Some(kernels) => copied(&**kernels, &unsharded.buffer, (device, dtype))?,
                None => unsharded.buffer.to_device(device)?,
            };
            let parts = LayerParts { layout, buffer: &buffer, device, layer, dtype, stored: &[] };
            match layer.checked_sub(1).and_then(|index| self.blocks.get_mut(index)) {
                Some(block) => block.refresh(&parts)?,
                None if layer == 0 => {
                    let matrix = parts.matrix(Part::Embedding)?;
                    self.embedding.refresh(&matrix)?;
                    if self.head.is_tied() {
                        self.head.refresh(&matrix, dtype)?;
                    }
                }
                None => {
                    self.norm = self.logit_scale.fold(parts.norm(Part::FinalNorm)?)?;
                    if !self.head.is_tied() {
                        self.head.refresh(&parts.matrix(Part::Head)?, dtype)?;
                    }
                }
            }
            if let Some(kernels) = &kernels {
                // The source may reuse the memory of its layer.
                kernels.synchronize()?;
            }
        }
        Ok(())
    }
}

/// A copy of a layer in device memory, in a number format.
fn copied(kernels: &dyn Kernels, buffer: &Tensor, (device, dtype): (&Device, DType)) -> Result<Tensor> {
    let buffer = converted(&buffer.to_device(device)?, dtype)?;
    let copy = kernels.empty(buffer.dims(), dtype)?;
    kernels.copy(&buffer, &copy)?;
    Ok(copy)
}
