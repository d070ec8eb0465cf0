//! How long kernels take, beside the least time that their bytes or operations allow.

mod ceilings;
mod ops;
mod timed;

pub use ceilings::{Ceilings, measure as ceilings};
pub use ops::run as ops;
pub use timed::{Floor, Timed};
