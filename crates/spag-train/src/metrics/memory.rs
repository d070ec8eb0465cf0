//! Memory of a process, now and at its peak.

use candle_core::Device;

/// Physical memory of this process in bytes; `None` on systems other than Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Memory now (`VmRSS`).
    pub resident: Option<u64>,
    /// The most so far (`VmHWM`).
    pub peak: Option<u64>,
}

impl ProcessMemory {
    /// The memory of this process.
    pub fn of_this_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kib * 1024)
        };
        Self { resident: bytes("VmRSS:"), peak: bytes("VmHWM:") }
    }
}

/// The peak memory of a run on `device` in bytes: of tensors on a GPU, of the process on a CPU.
pub fn peak_memory_of(device: &Device) -> Option<u64> {
    if device.is_cpu() {
        return ProcessMemory::of_this_process().peak;
    }
    // A missing figure must not end a run.
    spag_ops::peak_device_memory(device).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn touched_memory_is_counted() {
        let before = ProcessMemory::of_this_process();
        let block = vec![1u8; 256 << 20];
        let sum: u64 = block.iter().step_by(4096).map(|b| u64::from(*b)).sum();
        let after = ProcessMemory::of_this_process();
        assert!(sum > 0 && after.peak >= before.peak.map(|peak| peak + (128 << 20)), "{before:?} {after:?}");
        assert!(after.resident <= after.peak && after.resident >= Some(256 << 20), "{after:?}");
    }
}
