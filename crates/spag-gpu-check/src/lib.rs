//! Checks of all kernels, on a CPU through the emulator and on a GPU if present, and benchmarks of a GPU.

pub mod bench;
pub mod engine;
pub mod families;
pub mod kernels;
pub mod parity;
mod place;
mod random;
mod report;

pub use place::Place;
pub use report::{Report, Row};
