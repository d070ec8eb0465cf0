//! A collective on a stream of its own.

use std::sync::Arc;

use candle_core::Tensor;
use cudarc::driver::{CudaEvent, CudaStream};

use super::driver;
use crate::Result;

/// A collective on a stream. Keeps its buffer until the compute stream, which frees it, waits for the collective.
#[derive(Debug)]
pub(crate) struct Enqueued {
    pub(crate) compute: Arc<CudaStream>,
    /// The stream has completed the collective.
    pub(crate) done: Arc<CudaEvent>,
    /// Dropped after `drop` below.
    pub(crate) _buffer: Tensor,
}

impl Enqueued {
    /// Makes the compute stream wait for the collective.
    pub(crate) fn wait(self) -> Result<()> {
        self.compute.wait(&self.done).map_err(driver("waiting for a collective"))
    }
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        // The compute stream frees the buffer in its order, so it must wait for the collective even if no caller does.
        // The next use of the device reports an error here.
        let _ = self.compute.wait(&self.done);
    }
}
