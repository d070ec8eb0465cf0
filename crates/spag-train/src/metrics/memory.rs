//! How much memory a run has held.

use candle_core::Device;

/// The most physical memory that this process has held so far, in bytes, as Linux counts it (`VmHWM`); `None` on other
/// systems.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The most memory that a run on `device` has held so far, in bytes: tensors on a GPU, the process on a CPU.
pub fn peak_memory_of(device: &Device) -> Option<u64> {
    match device.is_cpu() {
        true => peak_memory(),
        // A figure that cannot be had is no reason to end a run.
        false => spag_model::peak_device_memory(device).ok().flatten(),
    }
}

/// Bytes as GiB.
pub fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_touched_is_counted() {
        let before = peak_memory().unwrap();
        let block = vec![1u8; 256 << 20];
        let sum: u64 = block.iter().step_by(4096).map(|b| u64::from(*b)).sum();
        let after = peak_memory().unwrap();
        assert!(sum > 0 && after >= before + (128 << 20), "{before} {after}");
    }
}
