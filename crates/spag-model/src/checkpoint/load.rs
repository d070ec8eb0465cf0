//! Where a checkpoint is loaded to.

use candle_core::Device;

use super::WeightDtype;

/// Where a checkpoint is loaded to, and how its numbers are held there.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The device that holds the weights.
    pub device: Device,
    /// Their number format; others in the files are rounded to it.
    pub dtype: WeightDtype,
}

impl Default for LoadOptions {
    /// f32 in the host's memory.
    fn default() -> Self {
        Self { device: Device::Cpu, dtype: WeightDtype::F32 }
    }
}
