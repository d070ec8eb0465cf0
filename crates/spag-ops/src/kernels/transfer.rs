//! Marks in a device's work, and asynchronous copies between device and host.

#[cfg(feature = "cuda")]
use candle_core::Error;
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::CudaEvent;
use candle_core::{Result, Tensor};

/// A point in the work of a device.
#[derive(Debug, Default)]
pub struct Mark {
    /// `None` if all earlier work is done.
    #[cfg(feature = "cuda")]
    pub(super) event: Option<CudaEvent>,
}

impl Mark {
    /// A mark that has been passed, for devices whose launches are synchronous.
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

/// A copy between device and host that may be in progress. It keeps both tensors alive; dropping it waits for the
/// copy.
#[derive(Debug)]
pub struct Transfer {
    end: Mark,
    _tensors: Option<[Tensor; 2]>,
}

impl Transfer {
    /// A completed copy.
    pub fn done() -> Self {
        Self { end: Mark::passed(), _tensors: None }
    }

    /// A copy of `from` to `to` that ends at a mark.
    #[cfg(feature = "cuda")]
    pub(super) fn until(end: Mark, from: &Tensor, to: &Tensor) -> Self {
        Self { end, _tensors: Some([from.clone(), to.clone()]) }
    }

    /// The mark of its end.
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
        // A failed device stops copying, and reports the failure to the next call.
        let _ = self.end.wait();
    }
}
