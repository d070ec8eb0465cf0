//! Portable packing, also used for AVX2 and NEON where the compiler vectorizes as well as intrinsics.

use std::ops::Range;

use super::STRIP;
use crate::product::ROWS;
use crate::product::source::Source;

/// `panel[k, width]` = the transpose of `n` ≤ width rows of the row-major matrix `from`; columns beyond are zero.
///
/// # Safety
/// The elements must be readable and the panel writable.
#[inline(always)]
pub(crate) unsafe fn columns<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { columns_of::<S>((0..width, 0..k), (n, width), from, stride, panel) }
}

/// Some (columns, steps) of [`columns`].
///
/// # Safety
/// As [`columns`].
#[inline(always)]
pub(super) unsafe fn columns_of<S: Source>(
    (columns, steps): (Range<usize>, Range<usize>),
    (n, width): (usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    for column in columns {
        for step in steps.clone() {
            // SAFETY: guaranteed by the caller. Pairs of bf16 may lie anywhere.
            unsafe {
                let value = match column < n {
                    true => S::value(from.add(column * stride + step).read_unaligned()),
                    false => 0.0,
                };
                panel.add(step * width + column).write_unaligned(value);
            }
        }
    }
}

/// `panel[k, width]` = `n` ≤ width columns of the row-major matrix `from`; columns beyond are not written.
///
/// # Safety
/// As [`columns`].
#[inline(always)]
pub(crate) unsafe fn rows<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    for step in 0..k {
        // SAFETY: row `step` has n columns.
        let (from, to) = unsafe {
            let from = std::slice::from_raw_parts(from.add(step * stride), n);
            (from, std::slice::from_raw_parts_mut(panel.add(step * width), n))
        };
        for (to, from) in to.iter_mut().zip(from) {
            *to = S::value(*from);
        }
    }
}

/// Strips of 6 of the `m` columns of the row-major matrix `from`, `distance` floats apart. A step has [`STRIP`] floats;
/// those beyond the columns are arbitrary.
///
/// # Safety
/// As [`columns`].
pub(crate) unsafe fn strips<S: Source>(
    (m, k, distance): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    strips: *mut f32,
) {
    for step in 0..k {
        for column in 0..m {
            // SAFETY: row `step` has m columns.
            unsafe {
                let to = strips.add(column / ROWS * distance + step * STRIP + column % ROWS);
                *to = S::value(*from.add(step * stride + column));
            }
        }
    }
}
