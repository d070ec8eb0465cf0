//! Frozen quantised weights, for training an adapter over them (QLoRA, arXiv 2305.14314).

use candle_core::{Device, Tensor};

use super::block::LoadedLayer;
use crate::config::Architecture;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::params::{LayerLayout, Layout, View, WeightSource};
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::quantised::BlockFormat;

/// The weights of a model in host memory, with the matrices of blocks and the output head quantised. Layers are dequantised
/// on request, in the number format of passes.
pub struct QuantisedLayers {
    layout: Layout,
    dtype: WeightDtype,
    format: BlockFormat,
    layers: Vec<Layer>,
}

impl std::fmt::Debug for QuantisedLayers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuantisedLayers").field("format", &self.format).finish_non_exhaustive()
    }
}

/// Tensors of a layer, with their offsets in the layer's buffer.
struct Layer {
    kept: Vec<(usize, Tensor)>,
    quantised: Vec<(usize, PackedWeight)>,
}

impl QuantisedLayers {
    /// Quantises layers while loading: `read` returns a layer of the model.
    pub(crate) fn load(
        layout: Layout,
        dtype: WeightDtype,
        format: BlockFormat,
        read: impl Fn(usize) -> Result<LoadedLayer>,
    ) -> Result<Self> {
        let layer = |index: usize| {
            let (loaded, mut layer) = (read(index)?, Layer { kept: Vec::new(), quantised: Vec::new() });
            for (at, view) in layout.layers[index].views.iter().enumerate() {
                let tensor = loaded.layout.view(&loaded.buffer, 0, at)?;
                match quantised_format(index, view, format) {
                    Some((format, _)) => {
                        layer.quantised.push((view.offset, PackedWeight::quantised(&tensor, format, &Device::Cpu)?))
                    }
                    None => layer.kept.push((view.offset, tensor.flatten_all()?.force_contiguous()?)),
                }
            }
            Ok::<_, Error>(layer)
        };
        let layers = (0..layout.layers.len()).map(layer).collect::<Result<_>>()?;
        Ok(Self { layout, dtype, format, layers })
    }

    /// Bytes of the weights of an architecture, and of the largest layer dequantised.
    pub fn bytes(architecture: &Architecture, format: BlockFormat, dtype: WeightDtype) -> (u64, u64) {
        let layout = Layout::new(architecture);
        let of_view = |index: usize, view: &View| match quantised_format(index, view, format) {
            Some((format, (rows, columns))) => PackedWeight::quantised_bytes(format, rows, columns),
            None => (view.len() * dtype.bytes()) as u64,
        };
        let of_layer =
            |(index, layer): (usize, &LayerLayout)| layer.views.iter().map(|view| of_view(index, view)).sum::<u64>();
        // The embedding is not copied.
        let largest = layout.layers.iter().skip(1).map(|layer| layer.len).max().unwrap_or(0);
        (layout.layers.iter().enumerate().map(of_layer).sum(), (largest * dtype.bytes()) as u64)
    }

    /// The format of the matrices.
    pub fn format(&self) -> BlockFormat {
        self.format
    }
}

/// The format and extents of a tensor of layer `index`, if it is quantised. The embedding, in the first layer, is read by rows.
fn quantised_format(index: usize, view: &View, format: BlockFormat) -> Option<(BlockFormat, (usize, usize))> {
    match (index, view.shape.as_slice()) {
        (1.., &[rows, columns]) => Some((format.of_inputs(columns)?, (rows, columns))),
        _ => None,
    }
}

impl WeightSource for QuantisedLayers {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn dtype(&self) -> WeightDtype {
        self.dtype
    }

    fn device(&self) -> &Device {
        &Device::Cpu
    }

    fn unshard(&self, layer: usize, _next: Option<usize>) -> Result<Tensor> {
        let (Some(own), Some(shape)) = (self.layers.get(layer), self.layout.layers.get(layer)) else {
            return Err(Error::Config(format!("layer {layer} does not exist")));
        };
        if let ([(0, all)], []) = (&own.kept[..], &own.quantised[..])
            && all.elem_count() == shape.len
        {
            return Ok(all.clone());
        }
        let buffer = Tensor::zeros(shape.len, self.dtype.into(), &Device::Cpu)?;
        for (offset, tensor) in &own.kept {
            buffer.slice_set(tensor, 0, *offset)?;
        }
        for (offset, weight) in &own.quantised {
            let (rows, columns) = (weight.outputs(), weight.inputs());
            let to = buffer.narrow(0, *offset, rows * columns)?.reshape((rows, columns))?;
            packed_linear::dequantise(weight, &to)?;
        }
        Ok(buffer)
    }

    fn reshard(&self, _layer: usize) {}
}
