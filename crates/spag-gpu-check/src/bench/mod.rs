//! Benchmarks of kernels, relative to lower bounds from their bytes or operations.

mod ceilings;
mod ops;
mod timed;

pub use ceilings::{Ceilings, measure as ceilings};
pub use ops::run as ops;
pub use timed::{Floor, Timed};
