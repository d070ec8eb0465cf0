//! Device memory, streams and events of an NVIDIA GPU, for process groups whose buffers are on one. Feature `cuda`.

mod enqueued;
mod memory;
mod stream;

pub(crate) use enqueued::Enqueued;
pub(crate) use memory::address;
pub(crate) use stream::{StreamPriority, bind, driver, new_stream};
