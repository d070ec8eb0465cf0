//! Rounds column-major left operands to bf16 and transposes them for tiles, which read rows.

use half::bf16;
use rayon::prelude::*;

use super::buffer::Buffer;
use super::interleave::interleave;
use super::{Element, Rows, transpose};
use crate::pool;

/// Rows are padded with zeros to a multiple of this, the elements of a tile's row.
const ALIGN: usize = 32;
/// Rows of the result per task.
const ROWS: usize = 64;

/// A transposed matrix in pool memory.
pub(super) struct TransposedLhs {
    memory: Vec<f32>,
    stride: usize,
}

impl TransposedLhs {
    /// The transpose, [m, k], of a row-major matrix [k, m].
    ///
    /// # Panics
    /// If the slice is shorter than its extents.
    pub(super) fn new<T: Element>((k, m): (usize, usize), values: &[T]) -> Self {
        let values = &values[..k * m];
        let stride = k.next_multiple_of(ALIGN);
        // A pair of elements moves as one 32-bit number.
        let (pairs, row) = (k.div_ceil(2), stride / 2);
        let mut memory = pool::values::<f32>(m * row);
        memory.par_chunks_mut((ROWS * row).max(1)).enumerate().for_each(|(task, to)| {
            let first = task * ROWS;
            let width = ROWS.min(m - first);
            let mut buffer = Buffer::new(pairs * width);
            // SAFETY: the buffer has 4 bytes for every two elements; any bits are numbers.
            let turned =
                unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<bf16>(), pairs * 2 * width) };
            let part = |step: usize| match step < k {
                true => &values[step * m + first..step * m + first + width],
                false => &[],
            };
            for (pair, to) in turned.chunks_exact_mut(2 * width).enumerate() {
                interleave(part(2 * pair), part(2 * pair + 1), to);
            }
            // SAFETY: the buffer has `pairs` rows of `width` pairs, and `to` has `width` rows of `row` pairs.
            unsafe { transpose((pairs, width), buffer.as_ptr(), width, to.as_mut_ptr(), row) }
        });
        Self { memory, stride }
    }

    /// The rows.
    pub(super) fn rows(&self) -> Rows<'_, bf16> {
        // SAFETY: a float has the 4 bytes of two elements, all of which `new` has written; any bits are numbers.
        let values = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<bf16>(), self.memory.len() * 2) };
        Rows { values, stride: self.stride }
    }
}

impl Drop for TransposedLhs {
    fn drop(&mut self) {
        pool::give(std::mem::take(&mut self.memory));
    }
}
