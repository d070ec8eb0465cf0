//! Packs parts of matrices in the order in which tiles read them.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
pub(super) mod portable;

/// Floats of a step of a strip: the rows of a tile, and two to align the next.
pub(super) const STRIP: usize = 8;
