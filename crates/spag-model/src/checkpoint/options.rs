//! Options for loading and writing checkpoints.

use candle_core::Device;

use super::ShardSize;
use crate::dtype::WeightDtype;

/// Device and number format of a loaded checkpoint.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The device of the weights.
    pub device: Device,
    /// Number format of the weights. Stored weights are converted to it.
    pub dtype: WeightDtype,
}

impl Default for LoadOptions {
    /// f32 on the CPU.
    fn default() -> Self {
        Self { device: Device::Cpu, dtype: WeightDtype::F32 }
    }
}

/// Format of a written checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Number format of the weights.
    pub dtype: WeightDtype,
    /// Maximum bytes of a shard: see [`ShardSize`].
    pub max_shard_bytes: u64,
}

impl WriteOptions {
    /// A given number format, with Hugging Face's default of 5 GB per shard.
    pub fn new(dtype: WeightDtype) -> Self {
        Self { dtype, max_shard_bytes: ShardSize::default().bytes() }
    }

    /// Limits shards to so many bytes, if they are not smaller already.
    pub fn at_most(self, bytes: u64) -> Self {
        Self { max_shard_bytes: self.max_shard_bytes.min(bytes), ..self }
    }

    /// Sets the maximum shard size.
    pub fn sharded(self, size: ShardSize) -> Self {
        Self { max_shard_bytes: size.bytes(), ..self }
    }
}
