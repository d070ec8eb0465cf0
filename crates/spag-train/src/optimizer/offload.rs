//! Optimizer offload: gradients are copied to the host, layers are updated there, and parameters are copied back, one
//! layer at a time in each direction.
//!
//! Layers are updated in the order in which a backward pass completes them, the last one first. As many gradients as there are
//! staging buffers are copied while the pass computes those of the layers below. Each later copy runs while another layer is updated.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_model::dtype::WeightDtype;
use spag_ops::cast::round_into;
use spag_ops::kernels::{self, Kernels, PageLock, Transfer};

use crate::config::Placement;
use crate::error::Result;

/// Staging buffers of new parameters: one layer is copied while another is updated. On the device, as many hold rounded gradients.
pub(crate) const STAGING_BUFFERS: usize = 2;

/// Staging buffers of gradients: in any number format they have the memory of [`STAGING_BUFFERS`] in f32.
fn gradient_buffers(dtype: WeightDtype) -> usize {
    STAGING_BUFFERS * WeightDtype::F32.bytes() / dtype.bytes()
}

/// Page-locked staging buffers on the host, each as long as the largest layer.
pub(super) struct Offload {
    /// Layers whose gradients are being copied, in the order of their updates, which begin with the first. First, so that copies end
    /// before their memory is freed.
    ahead: Mutex<VecDeque<Ahead>>,
    kernels: Arc<dyn Kernels>,
    /// In the format that the optimizer gets. The nth update of a step has the nth buffer, round and round.
    gradients: Vec<Tensor>,
    /// On the device: gradients that are rounded before they are copied, in the same order; empty if they are copied in f32.
    rounded: Vec<Tensor>,
    /// In the parameters' number format; empty if the parameters stay on the host.
    parameters: Vec<Tensor>,
    _locks: Vec<PageLock>,
}

/// A layer whose gradient is being copied to the host.
struct Ahead {
    layer: usize,
    copy: Transfer,
}

impl Offload {
    /// For these parameters, at `place`, with gradients on `device`, which are copied in `dtype`; `None` if `device` is the host.
    pub(super) fn new(
        parameters: &[Tensor],
        place: Placement,
        device: &Device,
        dtype: WeightDtype,
    ) -> Result<Option<Self>> {
        let Some(first) = parameters.first() else { return Ok(None) };
        let Some(kernels) = kernels::of(device)? else { return Ok(None) };
        let largest = parameters.iter().map(Tensor::elem_count).max().unwrap_or(0);
        let buffers = |count: usize, dtype: DType, device: &Device| {
            let buffer = |_| Tensor::zeros(largest, dtype, device);
            (0..count).map(buffer).collect::<candle_core::Result<Vec<_>>>()
        };
        let down = buffers(gradient_buffers(dtype), dtype.into(), &Device::Cpu)?;
        let rounded = match dtype {
            WeightDtype::F32 => Vec::new(),
            WeightDtype::Bf16 => buffers(STAGING_BUFFERS, DType::BF16, device)?,
        };
        let up = match place {
            Placement::Device => buffers(STAGING_BUFFERS, first.dtype(), &Device::Cpu)?,
            Placement::Host => Vec::new(),
        };
        let locks =
            down.iter().chain(&up).map(|buffer| kernels.page_lock(buffer)).collect::<candle_core::Result<_>>()?;
        Ok(Some(Self { ahead: Mutex::default(), kernels, gradients: down, rounded, parameters: up, _locks: locks }))
    }

    /// Starts to copy the gradient of a layer, which is complete, if a staging buffer is free.
    pub(super) fn start(&self, layer: usize, gradient: &Tensor) -> Result<()> {
        let mut ahead = self.ahead();
        let buffer = ahead.len();
        if buffer < self.gradients.len() && ahead.iter().all(|other| other.layer != layer) {
            let copy = self.copy(layer, gradient, buffer, &ahead)?;
            ahead.push_back(copy);
        }
        Ok(())
    }

    /// Forgets the gradients of a step without an update. They may be overwritten then.
    pub(super) fn forget(&self) {
        self.ahead().clear();
    }

    /// Calls `update(layer, gradient, parameter)` for every layer, all on the host; `parameter` is a staging buffer for the
    /// new parameters if these are on the device. Copies overlap with updates.
    pub(super) fn update(
        &self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        update: impl Fn(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut ahead = std::mem::take(&mut *self.ahead());
        let started: Vec<usize> = ahead.iter().map(|ahead| ahead.layer).collect();
        let mut later = (0..gradients.len()).rev().filter(|layer| !started.contains(layer));
        let mut uploads: VecDeque<Transfer> = VecDeque::new();
        for number in 0..gradients.len() {
            while ahead.len() < self.gradients.len() {
                let Some(layer) = later.next() else { break };
                let copy = self.copy(layer, &gradients[layer], number + ahead.len(), &ahead)?;
                ahead.push_back(copy);
            }
            let Some(Ahead { layer, copy }) = ahead.pop_front() else { break };
            copy.wait()?;
            let part =
                |buffers: &[Tensor]| buffers[number % buffers.len()].narrow(0, 0, parameters[layer].elem_count());
            let gradient = part(&self.gradients)?;
            if self.parameters.is_empty() {
                kernels::without(|| update(layer, &gradient, &parameters[layer]))?;
                continue;
            }
            if uploads.len() == self.parameters.len() {
                // Its buffer is the next one.
                uploads.pop_front().map_or(Ok(()), |oldest| oldest.wait())?;
            }
            let parameter = part(&self.parameters)?;
            kernels::without(|| update(layer, &gradient, &parameter))?;
            uploads.push_back(self.kernels.start_upload(&parameter, &parameters[layer], &self.kernels.mark()?)?);
        }
        Ok(uploads.iter().try_for_each(Transfer::wait)?)
    }

    fn ahead(&self) -> MutexGuard<'_, VecDeque<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to copy a gradient after the work launched so far, to the staging buffer of an update. `ahead` are the copies before it
    /// that have not been waited for.
    fn copy(&self, layer: usize, gradient: &Tensor, number: usize, ahead: &VecDeque<Ahead>) -> Result<Ahead> {
        let part = |buffers: &[Tensor]| buffers[number % buffers.len()].narrow(0, 0, gradient.elem_count());
        let buffer = part(&self.gradients)?;
        let gradient = match self.rounded.len() {
            0 => gradient.clone(),
            buffers => {
                // The copy that reads its buffer.
                if let Some(before) = ahead.iter().rev().nth(buffers - 1) {
                    self.kernels.order_after(before.copy.end())?;
                }
                let rounded = part(&self.rounded)?;
                round_into(gradient, &rounded)?;
                rounded
            }
        };
        let copy = self.kernels.start_download(&gradient, &buffer, &self.kernels.mark()?)?;
        Ok(Ahead { layer, copy })
    }
}
