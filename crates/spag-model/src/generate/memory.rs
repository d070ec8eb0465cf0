//! How much memory an engine may take.

use std::fs;

/// Share of the memory that is free which keys and values may take unless told otherwise: 1/2.
const SHARE: usize = 2;

/// Memory that an engine's keys and values may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// All of it.
    pub bytes: usize,
    /// What one number of a key or value takes: 4 on a CPU, which computes in f32; on a GPU that of the weights.
    pub bytes_per_value: usize,
}

impl MemoryBudget {
    /// Half of what this machine has left now, for an engine on its CPU.
    pub fn of_this_machine() -> Self {
        Self {
            bytes: usize::try_from(available_memory()).unwrap_or(usize::MAX) / SHARE,
            bytes_per_value: size_of::<f32>(),
        }
    }

    /// The part of one of `engines` that share it.
    pub fn among(self, engines: usize) -> Self {
        Self { bytes: self.bytes / engines.max(1), ..self }
    }
}

/// Where it cannot be told.
const UNKNOWN: u64 = 2 << 30;

/// Bytes that can be had without swapping: what Linux says, and what is left of a container's limit. 2 GiB where
/// neither can be read.
fn available_memory() -> u64 {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let number = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    let container = number("memory.max").zip(number("memory.current")).map(|(max, now)| max.saturating_sub(now));
    system.into_iter().chain(container).min().unwrap_or(UNKNOWN)
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says() {
        assert_eq!(meminfo("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(meminfo("MemTotal: 9 kB\n"), None);
        assert!(available_memory() > 1 << 20);
    }
}
