//! One check a kernel. Each runs the op on random data at a [`Place`] and on the CPU, and panics where
//! they differ by more than the number format explains.
//!
//! Shapes cover odd lengths, a single row, and sizes that are not whole vectors or tiles. Outputs hold NaNs before a
//! kernel writes them.

mod adamw;
mod attention;
mod cast;
mod embedding;
mod log_prob;
mod matmul;
mod packed_linear;
mod paged_attention;
mod rms_norm;
mod rope;
mod sample;
mod squared_norm;
mod swiglu;

use crate::Place;

/// A check by its name.
pub type Check = (&'static str, fn(&Place));

/// All checks.
pub const ALL: &[Check] = &[
    ("adamw", adamw::check),
    ("attention", attention::check),
    ("cast", cast::check),
    ("embedding", embedding::check),
    ("log_prob", log_prob::check),
    ("matmul", matmul::check),
    ("packed_linear", packed_linear::check),
    ("paged_attention", paged_attention::check),
    ("rms_norm", rms_norm::check),
    ("rope", rope::check),
    ("sample", sample::check),
    ("squared_norm", squared_norm::check),
    ("swiglu", swiglu::check),
];
