//! Detects whether processor and operating system support AMX-BF16.

use std::arch::x86_64::{__cpuid_count, _xgetbv};

/// Bits of EDX of leaf 7.
const AMX_BF16: u32 = 1 << 22;
const AMX_TILE: u32 = 1 << 24;
/// Bits of XCR0: configuration and data of tiles.
const XTILE: u64 = 0b11 << 17;

/// Whether AMX tiles are usable. Requests permission from the kernel, once for all threads of the process.
pub(crate) fn is_available() -> bool {
    if !std::arch::is_x86_feature_detected!("xsave") {
        return false;
    }
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    // SAFETY: processors with XSAVE have CPUID.
    let (last_leaf, features) = unsafe { (__cpuid_count(0, 0).eax, __cpuid_count(7, 0).edx) };
    // SAFETY: the processor has XSAVE, which the operating system has enabled.
    last_leaf >= 7
        && features & (AMX_BF16 | AMX_TILE) == AMX_BF16 | AMX_TILE
        && unsafe { enabled_state() } & XTILE == XTILE
        && is_permitted()
}

/// The register states that the operating system saves.
#[target_feature(enable = "xsave")]
fn enabled_state() -> u64 {
    // SAFETY: register 0 exists.
    unsafe { _xgetbv(0) }
}

/// Linux grants tile data to processes that request it.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILE_DATA: libc::c_long = 18;
    // SAFETY: the call has no pointers.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}
