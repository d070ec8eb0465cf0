//! How much memory there is, and how much a model needs.

mod host;
mod passing;
mod playing;
mod rank;
mod spread;
mod table;
mod training;
mod work;

use std::path::Path;

use candle_core::{Device, DeviceLocation};
use spag_io::format_gib;

use crate::checkpoint::WeightDtype;
use crate::device::free_memory;
use crate::error::{Error, Result};
use crate::params::Layout;

pub(crate) use host::{available_memory, total_memory};
pub use playing::{GenerationMemory, GenerationMemorySettings};
pub use rank::RankMemory;
pub use spread::{Computer, ParameterPlace, Sharding, Spread};
pub use training::{OptimizerPlace, TrainingSettings};

/// An allocation that does not fit into memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too little memory: {what} needs {needed}, and {free} are free {place}; {advice}{table}",
    needed = format_gib(*needed),
    free = format_gib(*free)
)]
pub struct TooLittleMemory {
    /// What needs the memory.
    pub what: String,
    /// Required bytes.
    pub needed: u64,
    /// Free bytes.
    pub free: u64,
    /// The memory: "on cuda:0 (…)", "on the host".
    pub place: String,
    /// The remedy.
    pub advice: String,
    /// The breakdown, one row per line after a line break, or empty.
    pub table: String,
}

impl From<TooLittleMemory> for Error {
    fn from(error: TooLittleMemory) -> Self {
        Self::Memory(Box::new(error))
    }
}

/// Rejects weights that do not fit on a device. Host memory is not checked: the operating system can swap.
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
        advice: "use a GPU with more memory, or stop other processes on this one".into(),
        table: String::new(),
    }
    .into())
}
