//! Free memory, and the memory that weights and generation need.

mod generation;
mod host;

use std::path::Path;

use candle_core::{Device, DeviceLocation};
use spag_io::format_gib;

use crate::checkpoint::WeightDtype;
use crate::device::free_memory;
use crate::error::{Error, Result};
use crate::params::Layout;

pub use generation::{GenerationMemory, GenerationMemorySettings};
pub(crate) use host::{available_memory, total_memory};

/// A computation needs more memory than is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too little memory: {what} needs {needed}, and {free} are free {place}; {advice}{table}",
    needed = format_gib(*needed),
    free = format_gib(*free)
)]
pub struct TooLittleMemory {
    /// The computation.
    pub what: String,
    /// Bytes that are needed.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
    /// The memory: "on cuda:0 (…)", "on the host".
    pub place: String,
    /// What to change.
    pub advice: String,
    /// The parts of `needed`, each on a line of its own after a line break, or empty.
    pub table: String,
}

impl From<TooLittleMemory> for Error {
    fn from(error: TooLittleMemory) -> Self {
        Self::Memory(Box::new(error))
    }
}

/// Refuses to read weights that do not fit on the device. The host's memory is not checked, because the operating
/// system can swap.
pub(crate) fn require_room_for_weights(layout: &Layout, dtype: WeightDtype, device: &Device, dir: &Path) -> Result<()> {
    if device.is_cpu() {
        return Ok(());
    }
    let place = match device.location() {
        DeviceLocation::Cuda { gpu_id } => format!("on cuda:{gpu_id}"),
        other => format!("on {other:?}"),
    };
    let needed = (layout.len() * dtype.bytes()) as u64;
    let free = free_memory(device)?.free;
    if needed <= free {
        return Ok(());
    }
    Err(TooLittleMemory {
        what: format!("{}: the weights in {dtype}", dir.display()),
        needed,
        free,
        place,
        advice: "use a GPU with more memory, or stop other programs on this one".into(),
        table: String::new(),
    }
    .into())
}
