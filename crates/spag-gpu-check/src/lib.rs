//! Checks that run on a CPU always, through the emulator, and on a GPU where there is one.

pub mod kernels;
mod place;
mod random;

pub use place::Place;
