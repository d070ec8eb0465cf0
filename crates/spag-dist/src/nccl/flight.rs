//! A collective that has been handed to the GPU.

use std::sync::Arc;

use candle_core::Tensor;
use cudarc::driver::{CudaEvent, CudaStream};

use super::communicator::driver;
use crate::Result;

/// Keeps a buffer until the device that frees it knows that it must wait for the collective.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Where tensors are computed, and freed.
    compute: Arc<CudaStream>,
    done: Arc<CudaEvent>,
    /// Dropped after `drop` below has made the compute stream wait.
    _buffer: Tensor,
}

impl Flight {
    pub(crate) fn new(compute: Arc<CudaStream>, done: Arc<CudaEvent>, buffer: Tensor) -> Self {
        Self { compute, done, _buffer: buffer }
    }

    /// Makes the device wait for the end; the host does not.
    ///
    /// # Errors
    /// What the driver says.
    pub(crate) fn land(self) -> Result<()> {
        self.compute.wait(&self.done).map_err(driver("waiting for a collective"))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Memory is freed in the order of the compute stream, which must not come before the collective's end, waited
        // for or not. An error here comes back at the next use of the device.
        let _ = self.compute.wait(&self.done);
    }
}
