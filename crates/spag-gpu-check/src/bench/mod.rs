//! How long kernels take, beside the least time that their bytes or operations allow.

mod ceilings;
mod kernels;
mod timed;

pub use ceilings::{Ceilings, measure as ceilings};
pub use kernels::run as kernels;
pub use timed::{Floor, Timed};
