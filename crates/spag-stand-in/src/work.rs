//! What a stream is given to do.

use std::sync::Arc;

use crate::memory::Region;
use crate::order::Use;

/// Runs the work; may be called again by a graph. An error is what a device reports as a failed launch.
pub(crate) type Run = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Memory that work uses.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) region: Region,
    pub(crate) how: Use,
}

/// Work for a stream.
#[derive(Clone)]
pub(crate) struct Work {
    /// For messages, such as the name of a kernel.
    pub(crate) what: String,
    pub(crate) accesses: Vec<Access>,
    pub(crate) run: Run,
}
