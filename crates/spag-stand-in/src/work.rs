//! Work submitted to streams.

use std::sync::Arc;

use crate::memory::Region;
use crate::order::Use;

/// Runs the work; graphs may call it repeatedly. An error is reported as a failed launch.
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
    /// Description for messages, such as the name of a kernel.
    pub(crate) what: String,
    pub(crate) accesses: Vec<Access>,
    pub(crate) run: Run,
}
