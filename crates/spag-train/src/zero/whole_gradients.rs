//! The gradients of one process. The first pass of a step writes them, and the others add to them.

use candle_core::{Device, Tensor};
use spag_model::params::{FlatBuffers, GradientSink, Layout};
use spag_ops::accumulate::set_zero;
use spag_ops::kernels::Accumulate;

use super::stale::Stale;
use crate::error::Result;

/// A buffer for each layer.
pub(crate) struct WholeGradients {
    buffers: FlatBuffers,
    stale: Stale,
}

impl WholeGradients {
    /// Zeros.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn zeros(layout: &Layout, device: &Device) -> Result<Self> {
        Ok(Self { buffers: FlatBuffers::zeros(layout, device)?, stale: Stale::none(layout.layers.len()) })
    }

    /// The layers.
    pub(super) fn layers(&self) -> &[Tensor] {
        self.buffers.layers()
    }

    /// Begins a step without gradients.
    pub(super) fn begin(&self) {
        self.stale.mark_all();
    }

    /// Ends a step: layers that no pass has reached have no gradients.
    pub(super) fn finish(&self) -> Result<()> {
        self.stale.take_all().try_for_each(|layer| Ok(set_zero(&self.layers()[layer])?))
    }
}

impl GradientSink for WholeGradients {
    fn layout(&self) -> &Layout {
        GradientSink::layout(&self.buffers)
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        let buffer = self.buffers.buffer(layer)?;
        if self.stale.take(layer) {
            set_zero(&buffer)?;
        }
        Ok(buffer)
    }

    fn block_buffer(&self, layer: usize) -> spag_model::Result<(Tensor, Accumulate)> {
        let accumulate = if self.stale.take(layer) { Accumulate::No } else { Accumulate::Yes };
        Ok((self.buffers.buffer(layer)?, accumulate))
    }

    fn complete(&self, layer: usize) -> spag_model::Result<()> {
        self.buffers.complete(layer)
    }
}
