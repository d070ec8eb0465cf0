//! How a model's passes come by whole layers, wherever these are kept.

use candle_core::{Device, Tensor};

use super::{FlatBuffers, Layout};
use crate::checkpoint::WeightDtype;
use crate::error::{Error, Result};

/// Lends whole layers of parameters to whoever reads them.
///
/// [`FlatBuffers`] lend what they hold. Where parameters are split over processes, or lie in another memory than the
/// one that computes, a lender puts a layer together when it is asked for, and need not keep it longer than it is read.
pub trait WeightSource: Send + Sync {
    /// The layers.
    fn layout(&self) -> &Layout;

    /// Number format of the elements.
    fn dtype(&self) -> WeightDtype;

    /// The device that the layers are lent on.
    fn device(&self) -> &Device;

    /// A layer's buffer, flat, with as many elements as the layout says or more. The layer `next`, if any, will be asked
    /// for after it, and can be fetched in the meantime.
    ///
    /// # Errors
    /// A layer outside the layout, or one that cannot be put together.
    fn unshard(&self, layer: usize, next: Option<usize>) -> Result<Tensor>;

    /// The layer is no longer read, for now.
    fn reshard(&self, layer: usize);
}

/// Takes the gradients of a backward pass, a layer at a time.
pub trait GradientSink: Send + Sync {
    /// The layers.
    fn layout(&self) -> &Layout;

    /// The buffer that a layer's gradients are added to: flat, f32, with as many elements as the layout says or more.
    /// May be asked for several times in a pass.
    ///
    /// # Errors
    /// A layer outside the layout, or no memory.
    fn buffer(&self, layer: usize) -> Result<Tensor>;

    /// The pass has added all that it has for this layer.
    ///
    /// # Errors
    /// What is done with it cannot be begun.
    fn complete(&self, layer: usize) -> Result<()>;
}

impl FlatBuffers {
    fn layer(&self, layer: usize) -> Result<Tensor> {
        self.layers.get(layer).cloned().ok_or_else(|| Error::Config(format!("there is no layer {layer}")))
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
