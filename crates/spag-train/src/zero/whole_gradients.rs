//! The gradients of one process. The first pass of a step writes them, and the others add to them.

use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::{Device, Tensor};
use spag_model::params::{FlatBuffers, GradientSink, Layout};
use spag_ops::accumulate::set_zero;
use spag_ops::kernels::Accumulate;

use crate::error::Result;

/// A buffer for each layer.
pub(crate) struct WholeGradients {
    buffers: FlatBuffers,
    /// Whether nothing has been added to a layer in this step; its buffer has the gradients of the step before.
    stale: Vec<AtomicBool>,
}

impl WholeGradients {
    /// Zeros.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn zeros(layout: &Layout, device: &Device) -> Result<Self> {
        let stale = layout.layers.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { buffers: FlatBuffers::zeros(layout, device)?, stale })
    }

    /// The layers.
    pub(super) fn layers(&self) -> &[Tensor] {
        self.buffers.layers()
    }

    /// Begins a step without gradients.
    pub(super) fn begin(&self) {
        self.stale.iter().for_each(|stale| stale.store(true, Ordering::Relaxed));
    }

    /// Ends a step: layers that no pass has reached have no gradients.
    pub(super) fn finish(&self) -> Result<()> {
        (0..self.stale.len()).filter(|layer| self.take_stale(*layer)).try_for_each(|layer| Ok(set_zero(&self.layers()[layer])?))
    }

    fn take_stale(&self, layer: usize) -> bool {
        self.stale.get(layer).is_some_and(|stale| stale.swap(false, Ordering::Relaxed))
    }
}

impl GradientSink for WholeGradients {
    fn layout(&self) -> &Layout {
        GradientSink::layout(&self.buffers)
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        let buffer = self.buffers.buffer(layer)?;
        if self.take_stale(layer) {
            set_zero(&buffer)?;
        }
        Ok(buffer)
    }

    fn block_buffer(&self, layer: usize) -> spag_model::Result<(Tensor, Accumulate)> {
        let accumulate = if self.take_stale(layer) { Accumulate::No } else { Accumulate::Yes };
        Ok((self.buffers.buffer(layer)?, accumulate))
    }

    fn complete(&self, layer: usize) -> spag_model::Result<()> {
        self.buffers.complete(layer)
    }
}
