//! Free memory, and checks before large allocations.

mod host;

use candle_core::{Device, DeviceLocation};

use crate::device::free_memory;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, TooLittleMemory};

pub use host::available_memory;
use host::available_with_swap;
pub(crate) use host::total_memory;

/// Checks that `needed` bytes are free: on a GPU, or for a CPU in memory and swap space.
///
/// # Errors
/// [`Error::Memory`] with `what` and `advice`.
pub fn require_room(needed: u64, device: &Device, what: impl FnOnce() -> String, advice: &str) -> Result<()> {
    let free = if device.is_cpu() { available_with_swap() } else { free_memory(device)?.free };
    // A failed allocation aborts the process, so a large one is tried first. It maps nothing.
    let can_reserve = || {
        let bytes = usize::try_from(needed).unwrap_or(usize::MAX);
        !device.is_cpu() || Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
    };
    if needed <= free && can_reserve() {
        return Ok(());
    }
    let place = match device.location() {
        DeviceLocation::Cpu => "on the host".to_owned(),
        DeviceLocation::Cuda { gpu_id } => format!("on cuda:{gpu_id}"),
        other => format!("on {other:?}"),
    };
    Err(TooLittleMemory { what: what(), needed, free, place, advice: advice.to_owned(), table: String::new() }.into())
}
