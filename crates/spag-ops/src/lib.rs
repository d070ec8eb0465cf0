//! The operations of a transformer, forward and backward, one per file.
//!
//! Ops take candle tensors; the tensors' device selects the implementation. The CPU versions run on rayon and
//! accumulate in f32 or better. The CUDA kernels are in the `.cu` file beside each op.
//!
//! Shapes: N tokens (all sequences of a batch, concatenated), D hidden size, H heads, V vocabulary, I/O input and
//! output size of a linear layer.

mod device;
mod error;
pub mod kernels;
mod memory;

pub mod accumulate;
pub mod adamw;
pub mod attention;
pub mod bias;
pub mod cast;
pub mod embedding;
pub mod glu;
pub mod head_norm;
pub mod log_prob;
pub mod low_rank;
pub mod matmul;
pub mod packed_linear;
pub mod paged_attention;
pub mod qkv;
pub mod rms_norm;
pub mod rope;
pub mod row_norm;
pub mod sample;
pub mod squared_norm;

pub mod cpu;
mod geglu;
pub mod pool;
pub mod product;
pub mod quantised;
mod simd;
mod swiglu;

pub use device::{DeviceChoice, DeviceMemory, OpenDevice, free_memory, peak_memory as peak_device_memory};
pub use error::{Error, Result, TooLittleMemory};
pub use memory::{available_memory, require_room};
pub use product::CpuPath;
