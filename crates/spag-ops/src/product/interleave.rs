//! Packs panels of pairs.

use half::bf16;

use super::pairs::index;
use super::{Element, transpose};
use crate::simd;

/// As [`super::Packs::pack`], for a panel of `COLUMNS` columns.
pub(crate) fn pack<const COLUMNS: usize>(rows: &[bf16], k: usize, panel: &mut [bf16]) {
    let count = rows.len() / k.max(1);
    assert!(panel.len() >= k * COLUMNS && count <= COLUMNS, "a panel is too short");
    if k.is_multiple_of(2) {
        // A pair moves as one 32-bit number.
        // SAFETY: `count` rows of k / 2 pairs, and k / 2 steps of `COLUMNS` pairs; moves change no bits.
        return unsafe {
            transpose((count, k / 2), rows.as_ptr().cast(), k / 2, panel.as_mut_ptr().cast(), COLUMNS);
        };
    }
    for (column, row) in rows.chunks_exact(k).enumerate() {
        for (step, value) in row.iter().enumerate() {
            panel[index::<COLUMNS>(k, step, column)] = *value;
        }
    }
}

/// Interleaves the elements of two rows as pairs. If `odd` is empty, pairs are completed with zeros.
pub(crate) fn interleave<T: Element>(even: &[T], odd: &[T], to: &mut [bf16]) {
    let (pairs, _) = to.as_chunks_mut::<2>();
    if odd.is_empty() {
        for (pair, even) in pairs.iter_mut().zip(even) {
            *pair = [even.narrow(), bf16::ZERO];
        }
        return;
    }
    simd::vectorized(
        #[inline(always)]
        || {
            for ((pair, even), odd) in pairs.iter_mut().zip(even).zip(odd) {
                *pair = [even.narrow(), odd.narrow()];
            }
        },
    );
}
