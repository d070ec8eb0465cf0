//! Streams for collectives.

use std::sync::Arc;

use cudarc::driver::result::stream::get_priority_range;
use cudarc::driver::{CudaStream, DriverError};

use crate::{Error, Result};

/// How soon the device runs the kernels of a stream that compete with those of others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamPriority {
    Default,
    Highest,
}

/// A stream for collectives on the device of `compute`.
pub(crate) fn new_stream(compute: &CudaStream, priority: StreamPriority) -> Result<Arc<CudaStream>> {
    bind(compute)?;
    let context = compute.context();
    let stream = match priority {
        StreamPriority::Default => context.new_stream(),
        StreamPriority::Highest => {
            get_priority_range().and_then(|(_, highest)| context.new_stream_with_priority(highest))
        }
    };
    stream.map_err(driver("a stream for collectives"))
}

/// Binds the stream's device to the calling thread.
pub(crate) fn bind(stream: &CudaStream) -> Result<()> {
    stream.context().bind_to_thread().map_err(driver("the device"))
}

/// Converts an error of the CUDA driver.
pub(crate) fn driver(what: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Nccl { what, reason: error.to_string() }
}
