//! How much memory this machine has left.

use std::fs;

/// Where it cannot be told.
const UNKNOWN: u64 = 2 << 30;

/// Bytes that can be had without swapping: what Linux says, and what is left of a container's limit. 2 GiB where
/// neither can be read.
pub(crate) fn available_memory() -> u64 {
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
