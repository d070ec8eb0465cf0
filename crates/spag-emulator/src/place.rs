//! The device on which a test runs kernels.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use spag_ops::DeviceChoice;
use spag_ops::kernels::{self, Kernels};

use crate::Emulator;

/// The device of a test: a GPU, or the CPU with emulated kernels.
#[derive(Clone)]
pub struct Place {
    device: Device,
    kernels: Option<Arc<dyn Kernels>>,
}

impl Place {
    /// The first GPU in a build with the feature `cuda`, else the emulator. Outputs are filled with NaNs before kernels write
    /// them.
    ///
    /// # Panics
    /// The build has the feature but cannot open a GPU.
    pub fn of_this_build() -> Self {
        if !kernels::HAVE_CUDA {
            return Self { device: Device::Cpu, kernels: Some(Arc::new(Emulator::default())) };
        }
        let device = DeviceChoice::Cuda(Some(0)).open(0).expect("a GPU").device().clone();
        kernels::of(&device).expect("its kernels").expect("its kernels").poison_outputs();
        Self { device, kernels: None }
    }

    /// Emulates a device with this much shared memory per block.
    pub fn with_shared_bytes(bytes: usize) -> Self {
        Self { device: Device::Cpu, kernels: Some(Arc::new(Emulator::with_shared_bytes(bytes))) }
    }

    /// Emulates a device of compute capability 9.0 with this many multiprocessors, which enables the warpgroup kernels.
    pub fn with_warpgroups(processors: u32) -> Self {
        Self { device: Device::Cpu, kernels: Some(Arc::new(Emulator::with_warpgroups(processors))) }
    }

    /// The CPU, with the CPU implementations of the ops.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, kernels: None }
    }

    /// Runs `f`; ops on tensors of this place use its kernels.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.kernels {
            Some(kernels) => kernels::using(kernels.clone(), f),
            None => f(),
        }
    }

    /// Copies a CPU tensor to this place and converts its number format.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn put(&self, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
        // Always a copy: in-place kernels must not modify the tensor used by the CPU version.
        tensor.to_dtype(dtype)?.copy()?.to_device(&self.device)
    }

    /// Whether the kernels are emulated, which takes seconds where a GPU takes milliseconds.
    pub fn is_emulated(&self) -> bool {
        self.kernels.is_some()
    }

    /// The candle device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}
