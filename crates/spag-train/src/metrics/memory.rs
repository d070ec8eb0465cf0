//! Peak memory.

use candle_core::Device;

/// The peak physical memory of this process in bytes (`VmHWM`); `None` on systems other than Linux.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The peak memory of a run on `device` in bytes: of tensors on a GPU, of the process on a CPU.
pub fn peak_memory_of(device: &Device) -> Option<u64> {
    if device.is_cpu() {
        return peak_memory();
    }
    // A missing figure must not end a run.
    spag_model::peak_device_memory(device).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn touched_memory_is_counted() {
        let before = peak_memory().unwrap();
        let block = vec![1u8; 256 << 20];
        let sum: u64 = block.iter().step_by(4096).map(|b| u64::from(*b)).sum();
        let after = peak_memory().unwrap();
        assert!(sum > 0 && after >= before + (128 << 20), "{before} {after}");
    }
}
