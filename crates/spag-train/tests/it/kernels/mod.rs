//! Training on kernels: in the emulator, or on the GPU of a build with the feature `cuda`.

mod optimizer;
mod parity;
mod policy_gradient;
mod zero;
