//! Metrics of a run: their declaration, and the lines of `metrics.jsonl`.

mod log;
mod memory;
mod metric;
mod record;

pub use memory::{ProcessMemory, peak_memory_of};
pub use metric::{Metric, MetricTensor, MetricValues, Reduction};
pub use record::{EvalRecord, Record};

pub(crate) use log::MetricsLog;
pub(crate) use metric::PassMetric;
