//! Layers of which every rank holds a part, put together while they are read.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup};
use spag_model::kernels::{self, Kernels, PageLock};
use spag_model::{Layout, WeightDtype, WeightSource};

use super::Partition;
use crate::config::OffloadParam;
use crate::error::Result;

/// Whole layers at a time: the one that is read, the next one on its way, and the last one, which the backward pass
/// begins with where the forward pass ends.
const SLOTS: usize = 3;

/// Lends whole layers of which every rank holds a part. All ranks have to ask for the same layers in the same order.
///
/// While a layer is read, the parts of the next one come in. A layer that is asked for again soon is still there.
pub(crate) struct Gathered {
    group: Arc<dyn ProcessGroup>,
    partition: Partition,
    dtype: WeightDtype,
    /// Where whole layers lie.
    device: Device,
    /// The own parts.
    parts: Vec<Tensor>,
    /// Where these lie.
    place: OffloadParam,
    /// Keep parts in the host's memory where they are, so that they go to the device at full speed.
    _locks: Vec<PageLock>,
    slots: Mutex<Vec<Slot>>,
}

/// A whole layer, the least recently used first.
struct Slot {
    layer: usize,
    buffer: Tensor,
    /// Its parts are still coming in.
    pending: Option<Pending>,
    lent: bool,
}

impl Gathered {
    /// Puts layers together on `device` from `parts`, which lie there.
    pub(crate) fn new(
        group: Arc<dyn ProcessGroup>,
        partition: Partition,
        parts: Vec<Tensor>,
        dtype: WeightDtype,
        device: &Device,
    ) -> Self {
        let (place, device) = (OffloadParam::None, device.clone());
        Self { group, partition, dtype, device, parts, place, _locks: Vec::new(), slots: Mutex::default() }
    }

    /// The same from parts that lie in the host's memory.
    pub(crate) fn on_host(self) -> Self {
        Self { place: OffloadParam::Cpu, ..self }
    }

    /// The same with the parts kept where they are in the host's memory.
    pub(crate) fn locked(self) -> Result<Self> {
        let lock = |kernels: Arc<dyn Kernels>| self.parts.iter().map(|part| kernels.page_lock(part)).collect();
        let locks: candle_core::Result<_> = kernels::of(&self.device)?.map_or(Ok(Vec::new()), lock);
        Ok(Self { _locks: locks?, ..self })
    }

    /// The own parts; whoever changes them calls [`Gathered::forget`] afterwards.
    pub(crate) fn parts(&self) -> &[Tensor] {
        &self.parts
    }

    /// Drops all whole layers: the parts have changed, or the memory is wanted.
    pub(crate) fn forget(&self) -> Result<()> {
        let slots = std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        slots.into_iter().filter_map(|slot| slot.pending).try_for_each(|pending| Ok(pending.wait()?))
    }

    /// Sees to it that a layer is there or coming in, and makes it the most recently used one.
    fn fetch(&self, slots: &mut Vec<Slot>, layer: usize) -> Result<()> {
        if let Some(at) = slots.iter().position(|slot| slot.layer == layer) {
            let slot = slots.remove(at);
            slots.push(slot);
            return Ok(());
        }
        let len = self.partition.padded_len(layer);
        let buffer = match self.free(slots)?.filter(|buffer| buffer.elem_count() == len) {
            Some(buffer) => buffer,
            None => Tensor::zeros(len, DType::from(self.dtype), &self.device)?,
        };
        self.put_own(&buffer, layer)?;
        let pending = Some(self.group.start(Collective::AllGather(buffer.clone()))?);
        slots.push(Slot { layer, buffer, pending, lent: false });
        Ok(())
    }

    /// The memory of a layer that gives way, where all slots are taken.
    fn free(&self, slots: &mut Vec<Slot>) -> Result<Option<Tensor>> {
        if slots.len() < SLOTS {
            return Ok(None);
        }
        let Some(oldest) = slots.iter().position(|slot| !slot.lent) else { return Ok(None) };
        let Slot { buffer, pending, .. } = slots.remove(oldest);
        if let Some(pending) = pending {
            pending.wait()?;
        }
        Ok(Some(buffer))
    }

    /// Copies the own part to its place, onto the device where it lies in the host's memory.
    fn put_own(&self, buffer: &Tensor, layer: usize) -> Result<()> {
        let (part, start) = (&self.parts[layer], self.partition.own_start(layer));
        match kernels::of(&self.device)?.filter(|_| self.place == OffloadParam::Cpu) {
            Some(kernels) => kernels.upload(part, &self.partition.own(buffer, layer)?)?,
            None => buffer.slice_set(part, 0, start)?,
        }
        Ok(())
    }

    /// A process's own layer is lent as it is where it lies on the right device.
    fn alone(&self, layer: usize) -> Option<&Tensor> {
        let whole = self.group.size() == 1 && self.place == OffloadParam::None;
        self.parts.get(layer).filter(|_| whole)
    }

    fn lend_layer(&self, layer: usize, next: Option<usize>) -> Result<Tensor> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.fetch(&mut slots, layer)?;
        if let Some(slot) = slots.last_mut() {
            // Before the next one is fetched: it must not give way to it.
            slot.lent = true;
        }
        if let Some(next) = next {
            self.fetch(&mut slots, next)?;
        }
        let Some(slot) = slots.iter_mut().find(|slot| slot.layer == layer) else {
            return Err(spag_model::Error::Config(format!("there is no layer {layer}")).into());
        };
        if let Some(pending) = slot.pending.take() {
            pending.wait()?;
        }
        Ok(slot.buffer.clone())
    }
}

impl WeightSource for Gathered {
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
        match self.alone(layer) {
            Some(part) => Ok(part.clone()),
            None => self.lend_layer(layer, next).map_err(super::into_model),
        }
    }

    fn reshard(&self, layer: usize) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.iter_mut().find(|slot| slot.layer == layer) {
            slot.lent = false;
        }
    }
}
