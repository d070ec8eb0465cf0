//! Optimizer offload: gradients are copied to the host, layers are updated there, and parameters are copied back, one
//! layer at a time in each direction.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use candle_core::{DType, Device, Tensor};
use spag_ops::kernels::{self, Kernels, PageLock};

use crate::config::Placement;
use crate::error::{Error, Result};

/// Staging buffers in each direction: one layer is copied while another is updated.
pub(crate) const STAGING_BUFFERS: usize = 2;

/// Page-locked staging buffers on the host, each as long as the largest layer.
pub(super) struct Offload {
    kernels: Arc<dyn Kernels>,
    /// f32.
    gradients: Vec<Tensor>,
    /// In the parameters' number format; empty if the parameters stay on the host.
    parameters: Vec<Tensor>,
    _locks: Vec<PageLock>,
}

impl Offload {
    /// For these parameters, at `place`, with gradients on `device`; `None` if `device` is the host.
    pub(super) fn new(parameters: &[Tensor], place: Placement, device: &Device) -> Result<Option<Self>> {
        let Some(first) = parameters.first() else { return Ok(None) };
        let Some(kernels) = kernels::of(device)? else { return Ok(None) };
        let largest = parameters.iter().map(Tensor::elem_count).max().unwrap_or(0);
        let buffers = |dtype: DType| {
            let buffer = |_| Tensor::zeros(largest, dtype, &Device::Cpu);
            (0..STAGING_BUFFERS).map(buffer).collect::<candle_core::Result<Vec<_>>>()
        };
        let down = buffers(DType::F32)?;
        let up = match place {
            Placement::Device => buffers(first.dtype())?,
            Placement::Host => Vec::new(),
        };
        let locks =
            down.iter().chain(&up).map(|buffer| kernels.page_lock(buffer)).collect::<candle_core::Result<_>>()?;
        Ok(Some(Self { kernels, gradients: down, parameters: up, _locks: locks }))
    }

    /// Calls `update(layer, gradient, parameter)` for every layer, all on the host; `parameter` is a staging buffer for the
    /// new parameters if these are on the device. Copies overlap with updates.
    pub(super) fn update(
        &self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        update: impl Fn(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let (send_down, downloaded) = sync_channel::<Staged>(STAGING_BUFFERS);
        let (send_up, updated) = sync_channel::<Staged>(STAGING_BUFFERS);
        let (free_down, take_down) = pool(&self.gradients);
        let (free_up, take_up) = pool(&self.parameters);
        thread::scope(|scope| {
            let thread = |name: &str| thread::Builder::new().name(name.into());
            let download = move || self.download(gradients, &take_down, &send_down);
            let down = thread("download").spawn_scoped(scope, download).map_err(no_thread)?;
            let upload = move || self.upload(parameters, &updated, &free_up);
            let up = thread("upload").spawn_scoped(scope, upload).map_err(no_thread)?;
            let outcome = kernels::without(|| -> Result<()> {
                for Staged { layer, buffer } in downloaded {
                    let len = parameters[layer].elem_count();
                    let gradient = buffer.narrow(0, 0, len)?;
                    if self.parameters.is_empty() {
                        update(layer, &gradient, &parameters[layer])?;
                    } else {
                        // Closed only if the upload thread has failed; its error is reported below.
                        let Ok(parameter) = take_up.recv() else { break };
                        update(layer, &gradient, &parameter.narrow(0, 0, len)?)?;
                        if send_up.send(Staged { layer, buffer: parameter }).is_err() {
                            break;
                        }
                    }
                    // Closed after the last download.
                    let _ = free_down.send(buffer);
                }
                Ok(())
            });
            drop((send_up, free_down, take_up));
            outcome.and(joined(down.join())).and(joined(up.join()))
        })
    }

    fn download(&self, gradients: &[Tensor], free: &Receiver<Tensor>, staged: &SyncSender<Staged>) -> Result<()> {
        for (layer, gradient) in gradients.iter().enumerate() {
            let Ok(buffer) = free.recv() else { break };
            self.kernels.download(gradient, &buffer.narrow(0, 0, gradient.elem_count())?)?;
            if staged.send(Staged { layer, buffer }).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn upload(&self, parameters: &[Tensor], staged: &Receiver<Staged>, free: &Sender<Tensor>) -> Result<()> {
        for Staged { layer, buffer } in staged {
            let parameter = &parameters[layer];
            self.kernels.upload(&buffer.narrow(0, 0, parameter.elem_count())?, parameter)?;
            // Closed after the last update.
            let _ = free.send(buffer);
        }
        Ok(())
    }
}

/// A staging buffer and the layer it holds.
struct Staged {
    layer: usize,
    buffer: Tensor,
}

/// A channel that holds `buffers`: take from the receiver, return to the sender.
fn pool(buffers: &[Tensor]) -> (Sender<Tensor>, Receiver<Tensor>) {
    let (free, take) = channel();
    for buffer in buffers {
        // The receiver exists.
        let _ = free.send(buffer.clone());
    }
    (free, take)
}

fn no_thread(error: std::io::Error) -> Error {
    Error::Candle(candle_core::Error::Msg(format!("a thread that copies layers cannot be started: {error}")))
}

fn joined(outcome: thread::Result<Result<()>>) -> Result<()> {
    match outcome {
        Ok(result) => result,
        Err(_) => Err(Error::Candle(candle_core::Error::Msg("a thread that copies layers has panicked".into()))),
    }
}
