//! One check a kernel. Each runs the op on random data at a [`Place`](crate::Place) and on the CPU, and panics where
//! they differ by more than the number format explains.
//!
//! Shapes cover odd lengths, a single row, and sizes that are not whole vectors or tiles. Outputs hold NaNs before a
//! kernel writes them.

mod engine;
mod paged_attention;
mod rms_norm;
mod sample;

use crate::Place;

/// A check by its name.
pub type Check = (&'static str, fn(&Place));

/// All checks.
pub const ALL: &[Check] = &[
    ("rms_norm", rms_norm::check),
    ("paged_attention", paged_attention::check),
    ("sample", sample::check),
    ("engine", engine::check),
];
