//! The innermost product: a few rows by at most 64 columns, with sums in registers.
//!
//! Every element of the result is one chain of fused multiply-adds over k, independent of the tile's size, so rows
//! are independent of each other.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
pub(super) mod portable;

#[cfg(target_arch = "x86_64")]
use super::Next;
use super::instructions::{InstructionSet, with_instructions};
use super::{COLUMNS, Element, Left, Output, ROWS, Right, Target};

/// `c[m, n] = [c +] a[m, k]·b[k, n]`, or c's chains continued, with m ≤ [`ROWS`] and n ≤ [`COLUMNS`].
///
/// # Safety
/// All elements within the extents must be readable (`a`, `b`) or exclusively owned (`c`).
#[inline]
pub(crate) unsafe fn tile<T: Element>(extents: (usize, usize, usize), a: Left, b: Right<T>, c: Target, output: Output) {
    // SAFETY: the processor has the path; the extents are guaranteed by the caller.
    unsafe { with_instructions!(I => I::tile(extents, a, b, c, output)) }
}
