//! Gradients that are summed over the ranks as they come, of which every rank keeps its part.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup};
use spag_model::ops::accumulate::add_into;
use spag_model::{GradientSink, Layout};

use super::Partition;
use crate::error::Result;

/// Layers whose sums may be under way while the backward pass goes on.
const IN_FLIGHT: usize = 1;

/// Takes a backward pass's gradients a layer at a time, and sums them over the ranks while the pass goes on. The own
/// parts of the sums of all passes since [`Reduced::begin`] are added up.
///
/// All ranks have to complete the same layers in the same order.
pub(crate) struct Reduced {
    group: Arc<dyn ProcessGroup>,
    partition: Partition,
    device: Device,
    /// f32, one a layer.
    parts: Vec<Tensor>,
    buffers: Mutex<Buffers>,
}

/// Whole layers, f32.
#[derive(Default)]
struct Buffers {
    /// Added to by the pass.
    open: Vec<(usize, Tensor)>,
    /// Being summed, the first one first.
    under_way: VecDeque<(usize, Tensor, Pending)>,
    /// The last one that has been summed, for the next of its size.
    spare: Option<Tensor>,
}

impl Reduced {
    /// Adds up the own parts of the sums in `parts`.
    pub(crate) fn new(group: Arc<dyn ProcessGroup>, partition: Partition, parts: Vec<Tensor>, device: &Device) -> Self {
        Self { group, partition, device: device.clone(), parts, buffers: Mutex::default() }
    }

    /// The own parts of the sums.
    pub(crate) fn parts(&self) -> &[Tensor] {
        &self.parts
    }

    /// Sets the sums to zero.
    pub(crate) fn begin(&self) -> Result<()> {
        Ok(self.parts.iter().try_for_each(Tensor::zero_set)?)
    }

    /// Waits until all layers that were completed are in the sums. Their memory is free then.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        while !buffers.under_way.is_empty() {
            self.settle(&mut buffers)?;
        }
        *buffers = Buffers::default();
        Ok(())
    }

    /// Waits for the first layer that is being summed.
    fn settle(&self, buffers: &mut Buffers) -> Result<()> {
        let Some((layer, buffer, pending)) = buffers.under_way.pop_front() else { return Ok(()) };
        pending.wait()?;
        add_into(&self.partition.own(&buffer, layer)?, &self.parts[layer])?;
        buffers.spare = Some(buffer);
        Ok(())
    }

    fn open(&self, layer: usize) -> Result<Tensor> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, buffer)) = buffers.open.iter().find(|(open, _)| *open == layer) {
            return Ok(buffer.clone());
        }
        let len = self.partition.padded_len(layer);
        let buffer = match buffers.spare.take().filter(|spare| spare.elem_count() == len) {
            Some(spare) => {
                spare.zero_set()?;
                spare
            }
            None => Tensor::zeros(len, DType::F32, &self.device)?,
        };
        buffers.open.push((layer, buffer.clone()));
        Ok(buffer)
    }

    fn sum(&self, layer: usize) -> Result<()> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = buffers.open.iter().position(|(open, _)| *open == layer) else { return Ok(()) };
        let (_, buffer) = buffers.open.remove(at);
        let pending = self.group.start(Collective::ReduceScatter(buffer.clone()))?;
        buffers.under_way.push_back((layer, buffer, pending));
        while buffers.under_way.len() > IN_FLIGHT {
            self.settle(&mut buffers)?;
        }
        Ok(())
    }
}

impl GradientSink for Reduced {
    fn layout(&self) -> &Layout {
        self.partition.layout()
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        self.open(layer).map_err(super::into_model)
    }

    fn complete(&self, layer: usize) -> spag_model::Result<()> {
        self.sum(layer).map_err(super::into_model)
    }
}
