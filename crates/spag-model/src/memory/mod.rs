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

use crate::checkpoint::WeightDtype;
use crate::device::free_memory;
use crate::error::{Error, Result};
use crate::params::Layout;

pub(crate) use host::{available_memory, total_memory};
pub use playing::{GenerationMemory, GenerationMemorySettings};
pub use rank::RankMemory;
pub use spread::{Computer, ParameterPlace, Sharding, Spread};
pub use table::gib;
pub use training::{OptimizerPlace, TrainingSettings};

/// What is about to begin has no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too little memory: {what} needs {needed}, and {free} are free {place}; {advice}{table}",
    needed = gib(*needed),
    free = gib(*free)
)]
pub struct TooLittleMemory {
    /// What needs it.
    pub what: String,
    /// Bytes that are needed.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Where: "on cuda:0 (…)", "on the host".
    pub place: String,
    /// What to change.
    pub advice: String,
    /// What the need is made of, a line each after a line break, or nothing.
    pub table: String,
}

impl From<TooLittleMemory> for Error {
    fn from(error: TooLittleMemory) -> Self {
        Self::Memory(Box::new(error))
    }
}

/// Refuses to read weights that the device has no room for. The host's memory is left to the operating system, which
/// can swap.
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
    match needed > free {
        false => Ok(()),
        true => Err(TooLittleMemory {
            what: format!("{}: the weights in {dtype}", dir.display()),
            needed,
            free,
            place,
            advice: "use a GPU with more memory, or end what else uses this one".into(),
            table: String::new(),
        }
        .into()),
    }
}
