//! Portable tiles: small, and compiled without intrinsics.

use super::{Element, Left, Output, Right, Target};

/// Columns whose sums are computed together.
const COLUMNS: usize = 16;

/// # Safety
/// As [`super::tile`].
pub(crate) unsafe fn tile<T: Element>(
    (m, k, n): (usize, usize, usize),
    a: Left,
    b: Right<T>,
    c: Target,
    output: Output,
) {
    for (i, first) in (0..m).flat_map(|i| (0..n).step_by(COLUMNS).map(move |first| (i, first))) {
        let width = COLUMNS.min(n - first);
        let mut sums = [0f32; COLUMNS];
        if output == Output::Continue {
            for (j, sum) in sums.iter_mut().enumerate().take(width) {
                // SAFETY: row i and column first + j of the extents.
                *sum = unsafe { *c.base.add(i * c.row + first + j) };
            }
        }
        for p in 0..k {
            // SAFETY: step p, row i and the columns from `first` on are within the extents.
            unsafe {
                let right = std::slice::from_raw_parts(b.at.add(p * b.k + first), width);
                let value = *a.at.add(i * a.row + p * a.k);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = value.mul_add(right.widen(), *sum);
                }
            }
        }
        for (j, sum) in sums.iter().enumerate().take(width) {
            let offset = i * c.row + first + j;
            // SAFETY: row i and column first + j of the extents.
            unsafe {
                *c.at.add(offset) = match output {
                    Output::Overwrite | Output::Continue => *sum,
                    Output::Accumulate => *c.base.add(offset) + sum,
                };
            }
        }
    }
}
