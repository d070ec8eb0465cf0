//! The checks of the CUDA kernels, and runs that train with them, in the emulator.

mod families;
mod kernels;
mod optimizer;
mod parity;
mod zero;
