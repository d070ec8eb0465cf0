//! Checks that run on a CPU always, through the emulator, and on a GPU where there is one; and measurements of a GPU.

pub mod bench;
pub mod checks;
pub mod engine;
pub mod kernels;
pub mod parity;
mod place;
mod random;
mod report;

pub use place::Place;
pub use report::{Report, Row};
