//! How much memory an engine may take.

use crate::device::free_memory;
use crate::error::Result;
use crate::llama::Llama;
use crate::memory::available_memory;

/// Share of a CPU's free memory which keys and values may take unless told otherwise: 1/2. The rest is for others.
const HOST_SHARE: u64 = 2;

/// Memory that an engine's keys and values may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// All of it.
    pub bytes: usize,
    /// What one number of a key or value takes: 4 on a CPU, which computes in f32; on a GPU that of the weights.
    pub bytes_per_value: usize,
}

impl MemoryBudget {
    /// Half of what this machine has left now, for an engine on its CPU.
    pub fn host() -> Self {
        Self {
            bytes: usize::try_from(available_memory() / HOST_SHARE).unwrap_or(usize::MAX),
            bytes_per_value: size_of::<f32>(),
        }
    }

    /// What the device of a loaded model has for its engine: half of what is left on a CPU; on a GPU nine tenths, since
    /// the weights are there already and only a pass's activations are to come.
    ///
    /// # Errors
    /// An error of the device.
    pub fn for_model(model: &Llama) -> Result<Self> {
        let device = model.parameters().device();
        let bytes = match device.is_cpu() {
            true => available_memory() / HOST_SHARE,
            false => free_memory(device)?.free / 10 * 9,
        };
        let bytes_per_value = Self::bytes_per_value(model);
        Ok(Self { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), bytes_per_value })
    }

    /// What one number of a key or value of a loaded model takes.
    pub fn bytes_per_value(model: &Llama) -> usize {
        match model.parameters().device().is_cpu() {
            true => size_of::<f32>(),
            false => model.parameters().dtype().bytes(),
        }
    }

    /// The part of one of `engines` that share it.
    pub fn split(self, engines: usize) -> Self {
        Self { bytes: self.bytes / engines.max(1), ..self }
    }
}
