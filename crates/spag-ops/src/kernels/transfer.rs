//! Points in the work of a device, and copies between it and the host that run beside its kernels.

#[cfg(feature = "cuda")]
use candle_core::Error;
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::CudaEvent;
use candle_core::{Result, Tensor};

/// A point in the work of a device.
#[derive(Debug, Default)]
pub struct Mark {
    /// `None` if all work before it is done.
    #[cfg(feature = "cuda")]
    pub(super) event: Option<CudaEvent>,
}

impl Mark {
    /// A point that has been passed: of devices whose work is done when a launch returns.
    pub fn passed() -> Self {
        Self::default()
    }

    /// Waits until the device has passed it.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn wait(&self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(event) = &self.event {
            event.synchronize().map_err(Error::wrap)?;
        }
        Ok(())
    }
}

/// A copy between a device and the host that may still run. It keeps both tensors; dropping it waits for the copy.
#[derive(Debug)]
pub struct Transfer {
    end: Mark,
    _tensors: Option<[Tensor; 2]>,
}

impl Transfer {
    /// A copy that has been made.
    pub fn done() -> Self {
        Self { end: Mark::passed(), _tensors: None }
    }

    /// A copy of `from` to `to` that ends at a point.
    #[cfg(feature = "cuda")]
    pub(super) fn until(end: Mark, from: &Tensor, to: &Tensor) -> Self {
        Self { end, _tensors: Some([from.clone(), to.clone()]) }
    }

    /// Where it ends.
    pub fn end(&self) -> &Mark {
        &self.end
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn wait(&self) -> Result<()> {
        self.end.wait()
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // A device that failed does not copy any more, and reports it to the next call.
        let _ = self.end.wait();
    }
}
