//! What a run tells about itself: lines of `metrics.jsonl` and TensorBoard events.

mod log;
mod memory;
mod record;

pub use memory::{gib, peak_memory, peak_memory_of};
pub use record::{EvalRecord, Record};

pub(crate) use log::MetricsLog;
