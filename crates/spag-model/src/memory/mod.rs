//! The memory that weights and generation need.

mod generation;

use std::path::Path;

use candle_core::Device;

use crate::checkpoint::WeightDtype;
use crate::error::Result;
use crate::params::Layout;

pub use generation::{GenerationMemory, GenerationMemorySettings, PromptLogProbs};

/// Bytes that the weights of a layout take.
pub(crate) fn weight_bytes(layout: &Layout, dtype: WeightDtype) -> u64 {
    (layout.len() as u64).saturating_mul(dtype.bytes() as u64)
}

/// Refuses to read weights that do not fit on the device, or for a CPU into memory and swap space.
pub(crate) fn require_room_for_weights(layout: &Layout, dtype: WeightDtype, device: &Device, dir: &Path) -> Result<()> {
    let what = || format!("{}: the weights in {dtype}", dir.display());
    let advice = match device {
        Device::Cpu if dtype == WeightDtype::F32 => {
            "stop other programs, use a machine with more memory, or generate with --dtype bf16, which takes half of it"
        }
        Device::Cpu => "stop other programs, or use a machine with more memory",
        _ => "use a GPU with more memory, or stop other programs on this one",
    };
    Ok(spag_ops::require_room(weight_bytes(layout, dtype), device, what, advice)?)
}
