//! Layer-wise access to parameters and gradients, independent of sharding and offload.

use candle_core::{Device, Tensor};

use super::adapter::AdapterPlaces;
use super::{FlatBuffers, Layout};
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use spag_ops::kernels::Accumulate;

/// Provides the parameters of a model one layer at a time.
///
/// [`FlatBuffers`] hold whole layers. Sharded or offloaded parameters gather a layer in `unshard` and free it in `reshard`.
pub trait WeightSource: Send + Sync {
    /// The layout of the parameters.
    fn layout(&self) -> &Layout;

    /// Number format of the elements.
    fn dtype(&self) -> WeightDtype;

    /// The device of the gathered layers.
    fn device(&self) -> &Device;

    /// A layer's flat buffer, with at least as many elements as in the layout. `next` is the layer that will be
    /// requested next and may be prefetched.
    ///
    /// # Errors
    /// A layer outside the layout, or a failed gather.
    fn unshard(&self, layer: usize, next: Option<usize>) -> Result<Tensor>;

    /// Releases a layer. Its buffer may be freed.
    fn reshard(&self, layer: usize);

    /// The adapter applied on top of these weights, in the same number format. If there is one, the weights are frozen: gradients are
    /// those of the adapter's matrices, in its layout.
    fn adapter(&self) -> Option<AdapterWeights<'_>> {
        None
    }
}

/// The matrices of an adapter over a model's weights.
#[derive(Clone, Copy)]
pub struct AdapterWeights<'a> {
    /// The parts of the model that they belong to.
    pub places: &'a AdapterPlaces,
    /// The matrices, with the model's number of layers.
    pub weights: &'a dyn WeightSource,
}

/// The weights of a model with an adapter.
#[derive(Clone, Copy)]
pub struct Adapted<'a> {
    /// The model's weights.
    pub base: &'a dyn WeightSource,
    /// The adapter's weights.
    pub adapter: AdapterWeights<'a>,
}

impl WeightSource for Adapted<'_> {
    fn layout(&self) -> &Layout {
        self.base.layout()
    }

    fn dtype(&self) -> WeightDtype {
        self.base.dtype()
    }

    fn device(&self) -> &Device {
        self.base.device()
    }

    fn unshard(&self, layer: usize, next: Option<usize>) -> Result<Tensor> {
        self.base.unshard(layer, next)
    }

    fn reshard(&self, layer: usize) {
        self.base.reshard(layer);
    }

    fn adapter(&self) -> Option<AdapterWeights<'_>> {
        Some(self.adapter)
    }
}

/// Passes each layer that has tensors to `read`, in order; adapters have layers without. The next one is prefetched.
///
/// # Errors
/// A failed gather, or what `read` returns.
pub fn each_layer(source: &dyn WeightSource, mut read: impl FnMut(usize, &Tensor) -> Result<()>) -> Result<()> {
    let layers = &source.layout().layers;
    for layer in (0..layers.len()).filter(|layer| !layers[*layer].views.is_empty()) {
        let buffer = source.unshard(layer, Some(layer + 1).filter(|next| *next < layers.len()))?;
        let read = read(layer, &buffer);
        source.reshard(layer);
        read?;
    }
    Ok(())
}

/// An unsharded layer. Dropping it reshards the layer.
pub(crate) struct Unsharded<'a> {
    source: &'a dyn WeightSource,
    index: usize,
    pub(crate) buffer: Tensor,
}

impl<'a> Unsharded<'a> {
    /// Layer `index`. Prefetches layer `next`.
    pub(crate) fn new(source: &'a dyn WeightSource, index: usize, next: Option<usize>) -> Result<Self> {
        Ok(Self { source, index, buffer: source.unshard(index, next)? })
    }
}

impl Drop for Unsharded<'_> {
    fn drop(&mut self) {
        self.source.reshard(self.index);
    }
}

/// Receives the gradients of a backward pass, one layer at a time.
pub trait GradientSink: Send + Sync {
    /// The layout of the gradients.
    fn layout(&self) -> &Layout;

    /// The buffer that a layer's gradients are accumulated into: flat, f32, with at least as many elements as in the
    /// layout. May be requested several times in a pass.
    ///
    /// # Errors
    /// A layer outside the layout, or out of memory.
    fn buffer(&self, layer: usize) -> Result<Tensor>;

    /// As [`GradientSink::buffer`] for a block, which a pass requests once. If it need not be added to, it holds numbers without a
    /// meaning, and the pass writes all of it.
    ///
    /// # Errors
    /// As [`GradientSink::buffer`].
    fn block_buffer(&self, layer: usize) -> Result<(Tensor, Accumulate)> {
        Ok((self.buffer(layer)?, Accumulate::Yes))
    }

    /// Called when a layer's gradients are complete, e.g. to start their reduction.
    ///
    /// # Errors
    /// The reduction could not be started.
    fn complete(&self, layer: usize) -> Result<()>;
}

impl FlatBuffers {
    pub(super) fn layer(&self, layer: usize) -> Result<Tensor> {
        let buffer = self.layers.get(layer).ok_or_else(|| Error::Config(format!("layer {layer} does not exist")))?;
        if buffer.elem_count() == 0 && self.layout.layers[layer].len > 0 {
            return Err(Error::Config(format!(
                "the weights of layer {layer} are in an engine, or quantised, and nothing else can use them; load the model once \
                 more, as it is"
            )));
        }
        Ok(buffer.clone())
    }
}

impl WeightSource for FlatBuffers {
    fn layout(&self) -> &Layout {
        FlatBuffers::layout(self)
    }

    fn dtype(&self) -> WeightDtype {
        FlatBuffers::dtype(self)
    }

    fn device(&self) -> &Device {
        FlatBuffers::device(self)
    }

    fn unshard(&self, layer: usize, _next: Option<usize>) -> Result<Tensor> {
        self.layer(layer)
    }

    fn reshard(&self, _layer: usize) {}
}

impl GradientSink for FlatBuffers {
    fn layout(&self) -> &Layout {
        FlatBuffers::layout(self)
    }

    fn buffer(&self, layer: usize) -> Result<Tensor> {
        self.layer(layer)
    }

    fn complete(&self, _layer: usize) -> Result<()> {
        Ok(())
    }
}
