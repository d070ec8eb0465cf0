//! Sharded parameters, gathered layer by layer while passes read them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup};
use spag_model::{Layout, WeightDtype, WeightSource};
use spag_ops::kernels::{self, Kernels, PageLock};

use super::{LayerCache, Partition};
use crate::config::Placement;
use crate::error::Result;

/// One shard of each layer. Reading a layer gathers it and prefetches the next one. All ranks have to read the same
/// layers in the same order.
pub(crate) struct ParamShards {
    group: Arc<dyn ProcessGroup>,
    partition: Partition,
    dtype: WeightDtype,
    /// Of the gathered layers.
    device: Device,
    /// The shards of this rank.
    shards: Vec<Tensor>,
    /// Where these are stored.
    placement: Placement,
    /// Page locks of shards on the host, for full-speed copies to the device.
    _locks: Vec<PageLock>,
    gathered: Mutex<LayerCache<GatheredLayer>>,
}

struct GatheredLayer {
    buffer: Tensor,
    /// The all-gather, until it has been waited for.
    pending: Option<Pending>,
}

impl ParamShards {
    /// Gathers layers on `device` from shards on the same device.
    pub(crate) fn new(
        group: Arc<dyn ProcessGroup>,
        partition: Partition,
        shards: Vec<Tensor>,
        dtype: WeightDtype,
        device: &Device,
    ) -> Self {
        let (placement, device) = (Placement::Device, device.clone());
        Self { group, partition, dtype, device, shards, placement, _locks: Vec::new(), gathered: Mutex::default() }
    }

    /// The same with shards in the host's memory.
    pub(crate) fn on_host(self) -> Self {
        Self { placement: Placement::Host, ..self }
    }

    /// The same with the shards page-locked in the host's memory.
    pub(crate) fn locked(self) -> Result<Self> {
        let lock = |kernels: Arc<dyn Kernels>| self.shards.iter().map(|shard| kernels.page_lock(shard)).collect();
        let locks: candle_core::Result<_> = kernels::of(&self.device)?.map_or(Ok(Vec::new()), lock);
        Ok(Self { _locks: locks?, ..self })
    }

    /// The shards of this rank. After changing them, call [`ParamShards::free_gathered`].
    pub(crate) fn shards(&self) -> &[Tensor] {
        &self.shards
    }

    /// Frees all gathered layers.
    pub(crate) fn free_gathered(&self) -> Result<()> {
        let mut gathered = std::mem::take(&mut *self.gathered());
        gathered.drain().filter_map(|layer| layer.pending).try_for_each(|pending| Ok(pending.wait()?))
    }

    fn gathered(&self) -> MutexGuard<'_, LayerCache<GatheredLayer>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to gather a layer, in the buffer of the evicted one if that has the same size.
    fn start_gather(&self, layer: usize, evicted: Option<GatheredLayer>) -> Result<GatheredLayer> {
        let Some(shard) = self.shards.get(layer) else {
            return Err(spag_model::Error::Config(format!("layer {layer} is out of range")).into());
        };
        let len = self.partition.padded_len(layer);
        let reusable = match evicted {
            Some(GatheredLayer { buffer, pending }) => {
                pending.map_or(Ok(()), Pending::wait)?;
                Some(buffer).filter(|buffer| buffer.elem_count() == len)
            }
            None => None,
        };
        let buffer = match reusable {
            Some(buffer) => buffer,
            None => Tensor::zeros(len, DType::from(self.dtype), &self.device)?,
        };
        match kernels::of(&self.device)?.filter(|_| self.placement == Placement::Host) {
            Some(kernels) => kernels.upload(shard, &self.partition.own(&buffer, layer)?)?,
            None => buffer.slice_set(shard, 0, self.partition.own_start(layer))?,
        }
        let pending = Some(self.group.start(Collective::AllGather(buffer.clone()))?);
        Ok(GatheredLayer { buffer, pending })
    }

    fn gather(&self, layer: usize, next: Option<usize>) -> Result<Tensor> {
        let mut gathered = self.gathered();
        let entry = gathered.acquire(layer, next, |layer, evicted| self.start_gather(layer, evicted))?;
        entry.pending.take().map_or(Ok(()), Pending::wait)?;
        Ok(entry.buffer.clone())
    }
}

impl WeightSource for ParamShards {
    fn layout(&self) -> &Layout {
        self.partition.layout()
    }

    fn dtype(&self) -> WeightDtype {
        self.dtype
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn unshard(&self, layer: usize, next: Option<usize>) -> spag_model::Result<Tensor> {
        // The only shard on the device that computes is the layer itself.
        let whole = self.group.size() == 1 && self.placement == Placement::Device;
        match self.shards.get(layer).filter(|_| whole) {
            Some(shard) => Ok(shard.clone()),
            None => self.gather(layer, next).map_err(super::into_model),
        }
    }

    fn reshard(&self, layer: usize) {
        self.gathered().release(layer);
    }
}
