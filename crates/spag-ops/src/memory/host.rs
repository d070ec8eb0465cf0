//! Available memory of this machine within the limits of the process.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Assumed if the amount cannot be read.
const UNKNOWN: u64 = 2 << 30;

/// Bytes that can be allocated without swapping: the minimum of Linux's estimate, the container's remaining limit, and
/// this process's remaining limit (`ulimit -v`). 2 GiB if none can be read.
pub fn available_memory() -> u64 {
    available(0)
}

/// [`available_memory`] plus swap space.
pub(super) fn available_with_swap() -> u64 {
    available(meminfo("SwapFree:").unwrap_or(0))
}

fn available(swap: u64) -> u64 {
    let machine = meminfo("MemAvailable:").map(|free| free.saturating_add(swap));
    let current = cgroup("memory.current");
    let container = cgroup("memory.max").zip(current).map(|(max, now)| max.saturating_sub(now));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rest = |resource, used: &str| {
        let limit = getrlimit(resource).current?;
        Some(limit.saturating_sub(parse_meminfo(&status, used).unwrap_or(0)))
    };
    let process = [rest(Resource::As, "VmSize:"), rest(Resource::Data, "VmData:")];
    machine.into_iter().chain(container).chain(process.into_iter().flatten()).min().unwrap_or(UNKNOWN)
}

/// Total bytes of this machine or its container; 2 GiB if unknown.
pub(crate) fn total_memory() -> u64 {
    meminfo("MemTotal:").into_iter().chain(cgroup("memory.max")).min().unwrap_or(UNKNOWN)
}

fn cgroup(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
}

fn meminfo(key: &str) -> Option<u64> {
    parse_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, key)
}

fn parse_meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_parsed_in_kib() {
        let text = "MemTotal: 9 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(
            [parse_meminfo(text, "MemAvailable:"), parse_meminfo(text, "MemTotal:")],
            [Some(2 << 20), Some(9 << 10)]
        );
        assert_eq!(parse_meminfo("MemTotal: 9 kB\n", "MemAvailable:"), None);
        assert!(available_memory() > 1 << 20 && total_memory() > 1 << 20);
    }
}
