//! The CPUs that this process may run on.

use std::io;

use super::cpu_list::CpuList;

/// The CPUs that this process may run on; `None` if the system does not say.
#[cfg(target_os = "linux")]
pub(super) fn allowed() -> Option<CpuList> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).ok()?;
    Some(CpuList((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()))
}

/// Binds this process, of one thread, and what it executes to `cpus`.
///
/// # Errors
/// The system's error, for instance if none of them can be used.
#[cfg(target_os = "linux")]
pub(in crate::launch) fn bind(cpus: &CpuList) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    cpus.0.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Other systems have no nodes in `/sys`, so nothing is bound.
#[cfg(not(target_os = "linux"))]
pub(super) fn allowed() -> Option<CpuList> {
    None
}

/// As on Linux, where alone lists of CPUs come from.
#[cfg(not(target_os = "linux"))]
pub(in crate::launch) fn bind(_cpus: &CpuList) -> io::Result<()> {
    Ok(())
}
