//! Every kernel compared with the CPU version of its op, one file per op: in the emulator, or on the GPU in a build with the
//! feature `cuda`.
//!
//! A test runs the op on random data at a `Place` and on the CPU, and fails if the results differ by more than rounding.
//! Shapes include odd lengths, single rows, and sizes that are not multiples of vectors or tiles.

mod adamw;
mod attention;
mod bias;
mod cast;
mod embedding;
mod gated;
mod head_norm;
mod log_prob;
mod matmul;
mod packed_linear;
mod paged_attention;
mod qkv;
mod quantised;
mod random;
mod rms_norm;
mod rope;
mod row_norm;
mod sample;
mod sizes;
mod squared_norm;
