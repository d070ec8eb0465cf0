//! Where the kernels of a check run.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use spag_model::kernels::{self, Kernels};

/// A device for the kernels of a check: a GPU, or the CPU with something that runs kernels there.
#[derive(Clone)]
pub struct Place {
    device: Device,
    kernels: Option<Arc<dyn Kernels>>,
}

impl Place {
    /// A GPU.
    pub fn device(device: Device) -> Self {
        Self { device, kernels: None }
    }

    /// The CPU, with `kernels`.
    pub fn emulated(kernels: Arc<dyn Kernels>) -> Self {
        Self { device: Device::Cpu, kernels: Some(kernels) }
    }

    /// Runs `f` with ops on tensors of this place going to its kernels.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.kernels {
            Some(kernels) => kernels::using(kernels.clone(), f),
            None => f(),
        }
    }

    /// A copy of a CPU tensor here, in another number format.
    ///
    /// # Errors
    /// No memory.
    pub fn put(&self, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
        // A copy always: what a kernel does in place must not reach the tensor that the CPU version gets.
        tensor.to_dtype(dtype)?.copy()?.to_device(&self.device)
    }

    /// Whether its kernels run on the CPU.
    pub fn is_emulated(&self) -> bool {
        self.kernels.is_some()
    }

    /// Its device.
    pub fn where_to(&self) -> &Device {
        &self.device
    }
}
