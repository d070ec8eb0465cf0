//! Memory of the host.

use std::fs;

/// Assumed if the memory cannot be read.
const UNKNOWN: u64 = 2 << 30;

/// Available bytes: the minimum of Linux's MemAvailable and what is left of the container's limit; 2 GiB if neither can
/// be read.
pub(crate) fn available_memory() -> u64 {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text, "MemAvailable:"));
    let number = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    let container = number("memory.max").zip(number("memory.current")).map(|(max, now)| max.saturating_sub(now));
    system.into_iter().chain(container).min().unwrap_or(UNKNOWN)
}

/// Total bytes of the host or the container; 2 GiB if they cannot be read.
pub(crate) fn total_memory() -> u64 {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text, "MemTotal:"));
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    system.into_iter().chain(container).min().unwrap_or(UNKNOWN)
}

fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_values_are_read_in_kib() {
        let text = "MemTotal: 9 kB\nMemAvailable:   2048 kB\n";
        assert_eq!([meminfo(text, "MemAvailable:"), meminfo(text, "MemTotal:")], [Some(2 << 20), Some(9 << 10)]);
        assert_eq!(meminfo("MemTotal: 9 kB\n", "MemAvailable:"), None);
        assert!(available_memory() > 1 << 20 && total_memory() > 1 << 20);
    }
}
