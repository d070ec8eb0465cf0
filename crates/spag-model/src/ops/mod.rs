//! The operations of a LLaMA, forward and backward, one a file.
//!
//! Every op works on candle tensors, so that a device is a property of the data and not of the code above.
//! The CPU versions split their work with rayon and accumulate in f32 or better; a CUDA twin goes beside each.
//!
//! Shapes: N tokens (all sequences packed one after another), D hidden size, H heads, V vocabulary, I/O the width in
//! and out of a linear layer.

pub mod accumulate;
pub mod adamw;
pub mod attention;
pub mod cast;
pub mod embedding;
pub mod log_prob;
pub mod matmul;
pub mod packed_linear;
pub mod paged_attention;
pub mod rms_norm;
pub mod rope;
pub mod sample;
pub mod squared_norm;
pub mod swiglu;

pub(crate) mod cpu;
mod elements;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod simd;
