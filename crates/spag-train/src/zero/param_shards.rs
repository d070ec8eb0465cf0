//! Sharded parameters, gathered layer by layer while passes read them.
//!
//! Shards on the host are copied to the device beside its kernels: the copy of the next layer waits only for the last kernel that read
//! the layer whose buffer it gets, and kernels wait only for the copy of the layer that they read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup};
use spag_model::dtype::WeightDtype;
use spag_model::params::{Layout, WeightSource};
use spag_ops::kernels::{self, Kernels, Mark, PageLock, Transfer};

use super::{LayerCache, Partition};
use crate::config::Placement;
use crate::error::Result;

/// One shard of each layer. Reading a layer gathers it and prefetches the next one. All ranks have to read the same
/// layers in the same order.
pub(crate) struct ParamShards {
    /// First, so that copies end before the memory that they read is freed.
    gathered: Mutex<LayerCache<GatheredLayer>>,
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
}

struct GatheredLayer {
    buffer: Tensor,
    /// The copy of the own shard from the host.
    upload: Option<Transfer>,
    /// The end of its last use, if it is not in use.
    unused_from: Option<Mark>,
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

    /// The shards of this rank. Before changing them, call [`ParamShards::free_gathered`].
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
            Some(GatheredLayer { buffer, upload, pending, unused_from }) => {
                pending.map_or(Ok(()), Pending::wait)?;
                drop(upload);
                Some((buffer, unused_from)).filter(|(buffer, _)| buffer.elem_count() == len)
            }
            None => None,
        };
        let (buffer, unused_from) = match reusable {
            Some(reusable) => reusable,
            None => (Tensor::zeros(len, DType::from(self.dtype), &self.device)?, None),
        };
        let own = self.partition.own(&buffer, layer)?;
        let upload = match self.kernels_of_host_shards()? {
            Some(kernels) => {
                let after = unused_from.map_or_else(|| kernels.mark(), Ok)?;
                Some(kernels.start_upload(shard, &own, &after)?)
            }
            None => {
                buffer.slice_set(shard, 0, self.partition.own_start(layer))?;
                None
            }
        };
        let pending = match self.group.size() {
            // The own shard is the whole layer.
            1 => None,
            _ => {
                // A collective begins after the work launched so far.
                self.order_after(upload.as_ref())?;
                Some(self.group.start(Collective::AllGather(buffer.clone()))?)
            }
        };
        Ok(GatheredLayer { buffer, upload, unused_from: None, pending })
    }

    /// The device's kernels, if they exist and the shards are on the host.
    fn kernels_of_host_shards(&self) -> Result<Option<Arc<dyn Kernels>>> {
        Ok(kernels::of(&self.device)?.filter(|_| self.placement == Placement::Host))
    }

    /// Later work comes after a copy to the device.
    fn order_after(&self, upload: Option<&Transfer>) -> Result<()> {
        match (upload, self.kernels_of_host_shards()?) {
            (Some(upload), Some(kernels)) => Ok(kernels.order_after(upload.end())?),
            _ => Ok(()),
        }
    }

    fn gather(&self, layer: usize, next: Option<usize>) -> Result<Tensor> {
        let mut gathered = self.gathered();
        let entry = gathered.acquire(layer, next, |layer, evicted| self.start_gather(layer, evicted))?;
        entry.unused_from = None;
        entry.pending.take().map_or(Ok(()), Pending::wait)?;
        self.order_after(entry.upload.as_ref())?;
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
        if let (Some(entry), Ok(Some(kernels))) = (self.gathered().release(layer), self.kernels_of_host_shards()) {
            // Without a mark, the next copy into its buffer waits for more.
            entry.unused_from = kernels.mark().ok();
        }
    }
}
