//! The weights of a model, packed for generation.

mod block;
mod embedding;
mod frozen;
mod head;

use candle_core::{DType, Device, Result as CandleResult, Tensor};

use crate::config::{Architecture, OutputHead};
use crate::error::Result;
use crate::model::linear::{PackedMemory, copied_to, quantised};
use crate::model::{Model, Unsharded};
use crate::params::{Layout, Part, WeightSource};
use embedding::Embedding;
use head::Head;
use spag_ops::cast::converted;
use spag_ops::kernels::{self, Kernels};
use spag_ops::packed_linear::PackedWeight;
use spag_ops::row_norm;

pub use frozen::QuantisedLayers;

pub(crate) use block::{LayerParts, PackedBlock, StoredMatrix, packing_bytes};

/// The weights of a model, packed layer by layer.
pub(crate) struct PackedWeights {
    embedding: Embedding,
    pub(crate) blocks: Vec<PackedBlock>,
    pub(crate) norm: Tensor,
    pub(crate) head: Head,
}

impl std::fmt::Debug for PackedWeights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedWeights").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl PackedWeights {
    /// Packs a model, and gives up each layer when it is packed.
    pub(crate) fn of_model(mut model: Model) -> Result<Self> {
        let architecture = &model.config().architecture;
        let layers = architecture.num_hidden_layers;
        // A quantised head is another matrix than the embedding.
        let in_head = architecture.is_tied() && model.block_format().is_none();
        let mut blocks = Vec::with_capacity(layers);
        for layer in 1..=layers {
            blocks.push(PackedBlock::of_model(&model, layer)?);
            model.release(layer)?;
        }
        let norm = block::unshared(&model.part(layers + 1, Part::FinalNorm)?)?;
        let head = Head::of_model(&model)?;
        model.release(layers + 1)?;
        let embedding = match in_head {
            true => Embedding::Head,
            false => Embedding::shared(model.stored(0, Part::Embedding)?),
        };
        Ok(Self { embedding, blocks, norm, head })
    }

    /// Packs layers for `device` as they are read: `read` gives a layer of the model on the host.
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
        let norm = layer.parts(device).norm(Part::FinalNorm)?;
        let weight = match (tied, layer.stored.first(), architecture.head) {
            (Some(weight), _, _) => weight,
            (None, Some(matrix), _) => matrix.pack()?,
            (None, None, OutputHead::Normalised) => {
                pack(&row_norm::forward(&layer.parts(device).matrix(Part::Head)?)?)?
            }
            (None, None, OutputHead::Plain | OutputHead::Tied) => pack(&layer.parts(device).matrix(Part::Head)?)?,
        };
        Ok(Self { embedding, blocks, norm, head: Head::of_weight(architecture.head, weight) })
    }

    /// Rows of the embedding, [N, D].
    pub(crate) fn embed(&self, ids: &[u32]) -> CandleResult<Tensor> {
        self.embedding.rows(ids, &self.head)
    }

    /// Packs other weights of the layout layer by layer, in the memory of these and their number format; kernels get a new layer in
    /// the place of each old one. If it fails, some layers are new and others old.
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
                    self.norm = parts.norm(Part::FinalNorm)?;
                    if !self.head.is_tied() {
                        self.head.refresh(&parts.matrix(Part::Head)?, dtype)?;
                    }
                }
            }
            if let Some(kernels) = &kernels {
                // The source may use the memory of its layer again.
                kernels.synchronize()?;
            }
        }
        Ok(())
    }
}

/// A layer that was read.
pub(crate) struct LoadedLayer {
    /// The layout of this layer alone.
    pub(crate) layout: Layout,
    /// Its tensors but for those of `stored`.
    pub(crate) buffer: Tensor,
    pub(crate) stored: Vec<StoredMatrix>,
}

impl LoadedLayer {
    fn parts<'a>(&'a self, device: &'a Device) -> LayerParts<'a> {
        let (layout, buffer, stored) = (&self.layout, &self.buffer, &self.stored[..]);
        LayerParts { layout, buffer, device, layer: 0, dtype: buffer.dtype(), stored }
    }
}

/// A layer in memory of the device, in a number format.
fn copied(kernels: &dyn Kernels, buffer: &Tensor, (device, dtype): (&Device, DType)) -> Result<Tensor> {
    let buffer = converted(&buffer.to_device(device)?, dtype)?;
    let copy = kernels.empty(buffer.dims(), dtype)?;
    kernels.copy(&buffer, &copy)?;
    Ok(copy)
}
