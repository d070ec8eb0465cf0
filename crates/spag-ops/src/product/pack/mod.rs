//! Packs parts of matrices in tile order.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
pub(super) mod portable;

/// Floats per step of a strip: the rows of a tile, plus two to align the next step.
pub(super) const STRIP: usize = 8;
