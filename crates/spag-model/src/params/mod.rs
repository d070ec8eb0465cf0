//! Parameters in flat buffers, one per layer, addressed by named views.
//!
//! A layer (the embedding, each block, the head) is the unit of an optimizer update, of recomputation, sharding and
//! offload. Gradients and optimizer state use the same layout.

mod adapter;
mod layout;
pub(crate) mod names;
mod norms;
mod source;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use spag_ops::accumulate::set_zero;
use spag_ops::{cast, cpu};

pub use adapter::AdapterPlaces;
pub(crate) use adapter::{Pair, Place};
pub use layout::{LayerLayout, Layout, Update, View};
pub(crate) use names::Initial;
pub use names::Part;
pub(crate) use norms::BlockNorms;
pub(crate) use source::Unsharded;
pub use source::{Adapted, AdapterWeights, GradientSink, WeightSource, each_layer};

/// One flat buffer per layer of a [`Layout`]: parameters (f32 or bf16), gradients (f32) or an optimizer moment (f32).
#[derive(Clone, Debug)]
pub struct FlatBuffers {
    layout: Layout,
    layers: Vec<Tensor>,
    /// Counts the buffers that share the layers' memory.
    sharing: Arc<()>,
}

impl FlatBuffers {
    /// Zero-filled f32 buffers.
    pub fn zeros(layout: &Layout, device: &Device) -> Result<Self> {
        Self::zeros_of(layout, WeightDtype::F32, device)
    }

    /// Zero-filled buffers in a given number format.
    pub fn zeros_of(layout: &Layout, dtype: WeightDtype, device: &Device) -> Result<Self> {
        Self::padded(layout, dtype, device, 1)
    }

    /// [`FlatBuffers::zeros_of`] with each buffer padded to a multiple of `multiple` elements.
    ///
    /// # Errors
    /// Out of memory.
    pub fn padded(layout: &Layout, dtype: WeightDtype, device: &Device, multiple: usize) -> Result<Self> {
        if device.is_cpu() {
            let bytes = layout.bytes(dtype);
            let what = || format!("{} parameters, or as many gradients, in {dtype},", layout.len());
            spag_ops::require_room(bytes, device, what, "choose a smaller model")?;
        }
        let buffer = |l: &LayerLayout| Tensor::zeros(l.len.next_multiple_of(multiple.max(1)), dtype.into(), device);
        let layers = layout.layers.iter().map(buffer).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: layout.clone(), layers, sharing: Arc::default() })
    }

    /// Buffers with all layers [released](FlatBuffers::release).
    pub(crate) fn released(layout: &Layout, dtype: WeightDtype, device: &Device) -> Result<Self> {
        let layers = layout.layers.iter().map(|_| Tensor::zeros(0, dtype.into(), device));
        let layers = layers.collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: layout.clone(), layers, sharing: Arc::default() })
    }

    /// Copies the buffers to another device, one layer at a time. On the same device the memory is shared.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let layers = self.layers.iter().map(|l| l.to_device(device)).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), layers, sharing: self.sharing.clone() })
    }

    /// Gathers all layers of a source, one by one, in host memory.
    ///
    /// # Errors
    /// Out of memory, or a failed gather.
    pub fn gathered(source: &dyn WeightSource) -> Result<Self> {
        let layout = source.layout();
        let all = Self::zeros_of(layout, source.dtype(), &Device::Cpu)?;
        each_layer(source, |layer, buffer| {
            let mut views = 0..layout.layers[layer].views.len();
            views.try_for_each(|view| {
                all.set_view(layer, view, &layout.view(buffer, layer, view)?.to_device(&Device::Cpu)?)
            })
        })?;
        Ok(all)
    }

    /// Converts to another number format. If the format is the same, the memory is shared.
    pub fn to_dtype(&self, dtype: WeightDtype) -> Result<Self> {
        let layers =
            self.layers.iter().map(|layer| cast::converted(layer, dtype.into())).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), layers, sharing: self.sharing.clone() })
    }

    /// Number format of the elements.
    pub fn dtype(&self) -> WeightDtype {
        match self.layers.first().map(Tensor::dtype) {
            Some(DType::BF16) => WeightDtype::Bf16,
            _ => WeightDtype::F32,
        }
    }

    /// The device of the buffers.
    pub fn device(&self) -> &Device {
        self.layers.first().map_or(&Device::Cpu, Tensor::device)
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The buffers, one per layer, each `[elements]` plus padding.
    pub fn layers(&self) -> &[Tensor] {
        &self.layers
    }

    /// A view of one tensor, sharing the buffer's memory.
    ///
    /// # Errors
    /// A layer or view outside the layout.
    pub fn view(&self, layer: usize, view: usize) -> Result<Tensor> {
        match self.layers.get(layer) {
            Some(buffer) => self.layout.view(buffer, layer, view),
            None => Err(Error::Config(format!("no view {view} in layer {layer}"))),
        }
    }

    /// Copies `values` into a view. They may be on any device.
    ///
    /// # Errors
    /// A layer or view outside the layout, a wrong number of elements, or a wrong number format.
    pub fn set_view(&self, layer: usize, view: usize, values: &Tensor) -> Result<()> {
        let expected = self.view(layer, view)?.elem_count();
        if values.elem_count() != expected {
            let found = values.elem_count();
            return Err(Error::Config(format!("{found} values for view {view} in layer {layer} of {expected}")));
        }
        let offset = self.layout.layers[layer].views[view].offset;
        let values = values.to_device(self.device())?.contiguous()?.flatten_all()?;
        Ok(self.layers[layer].slice_set(&values, 0, offset)?)
    }

    /// Whether the memory is shared with a clone or a no-op conversion. Tensors taken from the buffers are not counted.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.sharing) > 1
    }

    /// Releases a layer. Its memory is freed unless a clone or a view still uses it.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn release(&mut self, layer: usize) -> Result<()> {
        let (dtype, device) = (self.dtype().into(), self.device().clone());
        if let Some(buffer) = self.layers.get_mut(layer) {
            *buffer = Tensor::zeros(0, dtype, &device)?;
        }
        Ok(())
    }

    /// Consecutive required parts of a layer as one tensor; see [`Layout::joined`].
    ///
    /// # Errors
    /// A layer outside the layout or without these parts.
    pub(crate) fn required(&self, layer: usize, parts: &[Part]) -> Result<Tensor> {
        self.layout.required(&self.layer(layer)?, layer, parts)
    }

    /// All views with their Hugging Face names, in forward order.
    pub fn named(&self) -> Result<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        for (l, layer) in self.layout.layers.iter().enumerate() {
            for (v, view) in layer.views.iter().enumerate() {
                all.push((view.name.clone(), self.view(l, v)?));
            }
        }
        Ok(all)
    }

    /// Fills all buffers with zeros.
    pub fn set_zero(&self) -> Result<()> {
        for layer in &self.layers {
            if layer.device().is_cpu() && layer.dtype() == DType::F32 {
                // On all threads: for a large buffer, a single thread would take as long as an op.
                cpu::update(layer, |values| {
                    values.par_chunks_mut(1 << 16).for_each(|part| part.fill(0.0));
                    Ok(())
                })?;
            } else {
                set_zero(layer)?;
            }
        }
        Ok(())
    }

    /// A copy that does not share memory.
    pub fn deep_copy(&self) -> Result<Self> {
        let layers = self.layers.iter().map(Tensor::copy).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), layers, sharing: Arc::default() })
    }
}
