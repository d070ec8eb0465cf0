//! The device of a check.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use spag_ops::kernels::{self, Kernels};

/// A device that runs the kernels of a check: a GPU, or the CPU with emulated kernels.
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

    /// Runs `f` with ops on tensors of this place using its kernels.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.kernels {
            Some(kernels) => kernels::using(kernels.clone(), f),
            None => f(),
        }
    }

    /// Copies a CPU tensor to this place, in another number format.
    pub fn put(&self, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
        // Always a copy: in-place kernels must not modify the CPU version's tensor.
        tensor.to_dtype(dtype)?.copy()?.to_device(&self.device)
    }

    /// Whether the kernels are emulated.
    pub fn is_emulated(&self) -> bool {
        self.kernels.is_some()
    }

    /// The candle device.
    pub fn candle_device(&self) -> &Device {
        &self.device
    }
}
