//! Gradients that are reduce-scattered layer by layer during the backward pass.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup};
use spag_model::params::{GradientSink, Layout};
use spag_ops::accumulate::{add_into, set_zero};

use super::Partition;
use crate::error::Result;

/// Completed layers whose reduction runs while the backward pass continues with the layer below.
pub(crate) const REDUCING_LAYERS: usize = 1;

/// Takes the gradients of backward passes layer by layer, reduces them over the ranks, and accumulates the own shards of
/// the sums. All ranks have to complete the same layers in the same order.
pub(crate) struct GradShards {
    group: Arc<dyn ProcessGroup>,
    partition: Partition,
    device: Device,
    /// f32, one per layer.
    shards: Vec<Tensor>,
    buffers: Mutex<Buffers>,
}

/// Whole layers, f32.
#[derive(Default)]
struct Buffers {
    /// The pass adds gradients to these.
    open: Vec<(usize, Tensor)>,
    /// Being reduced, the oldest first.
    reducing: VecDeque<(usize, Tensor, Pending)>,
    /// The last reduced one, reused for a layer of the same size.
    spare: Option<Tensor>,
}

impl GradShards {
    /// Accumulates the own shards of the sums in `shards`.
    pub(crate) fn new(
        group: Arc<dyn ProcessGroup>,
        partition: Partition,
        shards: Vec<Tensor>,
        device: &Device,
    ) -> Self {
        Self { group, partition, device: device.clone(), shards, buffers: Mutex::default() }
    }

    /// The own shards of the sums.
    pub(crate) fn shards(&self) -> &[Tensor] {
        &self.shards
    }

    /// Sets the sums to zero.
    pub(crate) fn set_zero(&self) -> Result<()> {
        Ok(self.shards.iter().try_for_each(set_zero)?)
    }

    /// Waits for all reductions and frees the whole layers.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut buffers = self.buffers();
        while !buffers.reducing.is_empty() {
            self.finish_oldest(&mut buffers)?;
        }
        *buffers = Buffers::default();
        Ok(())
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layer whose reduction it finishes, if there is one.
    fn finish_oldest(&self, buffers: &mut Buffers) -> Result<Option<usize>> {
        let Some((layer, buffer, pending)) = buffers.reducing.pop_front() else { return Ok(None) };
        pending.wait()?;
        add_into(&self.partition.own(&buffer, layer)?, &self.shards[layer])?;
        buffers.spare = Some(buffer);
        Ok(Some(layer))
    }

    fn open(&self, layer: usize) -> Result<Tensor> {
        let mut buffers = self.buffers();
        if let Some((_, buffer)) = buffers.open.iter().find(|(open, _)| *open == layer) {
            return Ok(buffer.clone());
        }
        let len = self.partition.padded_len(layer);
        let buffer = match buffers.spare.take().filter(|spare| spare.elem_count() == len) {
            Some(spare) => {
                set_zero(&spare)?;
                spare
            }
            None => Tensor::zeros(len, DType::F32, &self.device)?,
        };
        buffers.open.push((layer, buffer.clone()));
        Ok(buffer)
    }

    /// Starts the reduction of a layer that a pass has completed. Returns the layer above whose sums are complete now, if there is one.
    pub(super) fn reduce(&self, layer: usize) -> Result<Option<usize>> {
        let mut buffers = self.buffers();
        let Some(at) = buffers.open.iter().position(|(open, _)| *open == layer) else { return Ok(None) };
        let (_, buffer) = buffers.open.remove(at);
        if buffer.elem_count() == 0 {
            // An adapter has no parameters in the first and the last layer, and devices run no kernel of zero blocks.
            return Ok(None);
        }
        let pending = self.group.start(Collective::ReduceScatter(buffer.clone()))?;
        buffers.reducing.push_back((layer, buffer, pending));
        if buffers.reducing.len() > REDUCING_LAYERS { self.finish_oldest(&mut buffers) } else { Ok(None) }
    }
}

impl GradientSink for GradShards {
    fn layout(&self) -> &Layout {
        self.partition.layout()
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        self.open(layer).map_err(super::into_model)
    }

    fn complete(&self, layer: usize) -> spag_model::Result<()> {
        self.reduce(layer).map(drop).map_err(super::into_model)
    }
}
