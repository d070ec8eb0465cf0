//! Updates on the host of a model on a device: gradients down, an update, parameters up, a layer each at a time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use candle_core::{DType, Device, Tensor};
use spag_model::kernels::{self, Kernels, PageLock};

use crate::config::OffloadParam;
use crate::error::{Error, Result};

/// Layers that are on their way at a time, in each direction: one copied, one updated.
const IN_FLIGHT: usize = 2;

/// Memory on the host that layers pass through, kept in place so that the device reads and writes it at full speed.
pub(super) struct Transfers {
    kernels: Arc<dyn Kernels>,
    /// f32, each for the largest layer.
    gradients: Vec<Tensor>,
    /// Of the number format of the parameters; none where these are on the host and stay there.
    parameters: Vec<Tensor>,
    _locks: Vec<PageLock>,
}

impl Transfers {
    /// For these parameters, at `place`, with gradients on `device`; `None` where there is no device beside the host.
    pub(super) fn new(parameters: &[Tensor], place: OffloadParam, device: &Device) -> Result<Option<Self>> {
        let Some(first) = parameters.first() else { return Ok(None) };
        let Some(kernels) = kernels::of(device)? else { return Ok(None) };
        let largest = parameters.iter().map(Tensor::elem_count).max().unwrap_or(0);
        let buffers = |dtype: DType| {
            let buffer = |_| Tensor::zeros(largest, dtype, &Device::Cpu);
            (0..IN_FLIGHT).map(buffer).collect::<candle_core::Result<Vec<_>>>()
        };
        let down = buffers(DType::F32)?;
        let up = match place {
            OffloadParam::None => buffers(first.dtype())?,
            OffloadParam::Cpu => Vec::new(),
        };
        let locks =
            down.iter().chain(&up).map(|buffer| kernels.page_lock(buffer)).collect::<candle_core::Result<_>>()?;
        Ok(Some(Self { kernels, gradients: down, parameters: up, _locks: locks }))
    }

    /// Calls `update(index, gradient, parameter)` with every layer's gradient on the host and its parameters there, or
    /// memory for its new ones, which then go to the device. While a layer is updated, the next one's gradient comes down
    /// and the last one's parameters go up.
    pub(super) fn update(
        &self,
        parameters: &[Tensor],
        gradients: &[Tensor],
        update: impl Fn(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let (come, came) = sync_channel::<Layer>(IN_FLIGHT);
        let (go, going) = sync_channel::<Layer>(IN_FLIGHT);
        let (give_down, free_down) = pool(&self.gradients);
        let (give_up, free_up) = pool(&self.parameters);
        thread::scope(|scope| {
            let down = scope.spawn(move || self.bring_down(gradients, &free_down, &come));
            let up = scope.spawn(move || self.bring_up(parameters, &going, &give_up));
            let updated = kernels::without(|| -> Result<()> {
                for Layer { index, buffer } in came {
                    let len = parameters[index].elem_count();
                    let gradient = buffer.narrow(0, 0, len)?;
                    if self.parameters.is_empty() {
                        update(index, &gradient, &parameters[index])?;
                    } else {
                        // Closed only where the thread that sends them up has failed, which says why.
                        let Ok(parameter) = free_up.recv() else { break };
                        update(index, &gradient, &parameter.narrow(0, 0, len)?)?;
                        if go.send(Layer { index, buffer: parameter }).is_err() {
                            break;
                        }
                    }
                    // Nobody waits for it once the last gradient has come.
                    let _ = give_down.send(buffer);
                }
                Ok(())
            });
            drop((go, give_down, free_up));
            updated.and(ended(down.join())).and(ended(up.join()))
        })
    }

    fn bring_down(&self, gradients: &[Tensor], free: &Receiver<Tensor>, come: &SyncSender<Layer>) -> Result<()> {
        for (index, layer) in gradients.iter().enumerate() {
            let Ok(buffer) = free.recv() else { break };
            self.kernels.download(layer, &buffer.narrow(0, 0, layer.elem_count())?)?;
            if come.send(Layer { index, buffer }).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn bring_up(&self, parameters: &[Tensor], going: &Receiver<Layer>, give: &Sender<Tensor>) -> Result<()> {
        for Layer { index, buffer } in going {
            let layer = &parameters[index];
            self.kernels.upload(&buffer.narrow(0, 0, layer.elem_count())?, layer)?;
            // Nobody waits for it once the last layer has been updated.
            let _ = give.send(buffer);
        }
        Ok(())
    }
}

/// A layer on its way.
struct Layer {
    index: usize,
    buffer: Tensor,
}

/// Buffers to be taken and given back.
fn pool(buffers: &[Tensor]) -> (Sender<Tensor>, Receiver<Tensor>) {
    let (give, take) = channel();
    for buffer in buffers {
        // The receiver is there.
        let _ = give.send(buffer.clone());
    }
    (give, take)
}

fn ended(outcome: thread::Result<Result<()>>) -> Result<()> {
    match outcome {
        Ok(result) => result,
        Err(_) => Err(Error::Candle(candle_core::Error::Msg("a thread that copies layers has panicked".into()))),
    }
}
