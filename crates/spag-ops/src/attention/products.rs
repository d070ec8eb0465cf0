//! Matrix products of attention: f32, or bf16 with f32 accumulation.
//!
//! In bf16, two steps of a product are read together as a pair: of head elements, keys or queries.

#[cfg(target_arch = "x86_64")]
use half::bf16;

#[cfg(target_arch = "x86_64")]
use super::Heads;
use crate::pool::Pooled;
#[cfg(target_arch = "x86_64")]
use crate::product::{CpuPath, dot, interleave, round};
use crate::product::{Element, Left, Output, ROWS, Right, Target, tile, transpose};
#[cfg(target_arch = "x86_64")]
use crate::simd;

/// Products and the packing of their operands from tensors and scores. Pointers follow the rules of [`tile`].
///
/// Extents count elements. The number of steps is padded with zeros to a multiple of [`Products::STEPS`].
///
/// A value holds the state of a computing thread.
pub(super) trait Products {
    /// Number format of queries, keys, values and outputs.
    type Value: Element + Pooled;
    /// Maximum rows of a tile, at most [`MAX_ROWS`].
    const ROWS: usize;
    /// Queries whose probabilities are kept at a time, for the gradients of keys and values; a multiple of `ROWS`.
    const BLOCK: usize;
    /// Steps that are read together; divides `ROWS`.
    const STEPS: usize;

    /// Initializes this thread.
    fn begin() -> Self;

    /// As [`crate::product::tile`], with at most `ROWS` rows.
    ///
    /// # Safety
    /// As [`crate::product::tile`]; 64 columns of `b` must be readable.
    unsafe fn tile(
        &mut self,
        extents: (usize, usize, usize),
        a: Left<Self::Value>,
        b: Right<Self::Value>,
        c: Target,
        output: Output,
    );

    /// `b` from a column on.
    fn columns(b: Right<Self::Value>, column: usize) -> Right<Self::Value> {
        b.columns(column * Self::STEPS)
    }

    /// Packs a right operand with one column for each of `rows` rows, and one step for each of their `width`
    /// elements, into `to`.
    ///
    /// # Safety
    /// The rows, `row` elements apart, must be readable, and `width` · `stride` elements of `to` writable.
    unsafe fn columns_of(
        extents: (usize, usize),
        from: *const Self::Value,
        row: usize,
        to: *mut Self::Value,
        stride: usize,
    ) -> Right<Self::Value>;

    /// Packs a right operand with one step for each of `rows` rows into `to`.
    ///
    /// # Safety
    /// As [`Products::columns_of`], with `to` large enough for the rows, rounded up to whole steps.
    unsafe fn steps_of(
        extents: (usize, usize),
        from: *const Self::Value,
        row: usize,
        to: *mut Self::Value,
    ) -> Right<Self::Value>;

    /// [`Products::steps_of`] for rows of queries, which may be read in place.
    ///
    /// # Safety
    /// As [`Products::steps_of`].
    unsafe fn query_steps(
        extents: (usize, usize),
        from: *const Self::Value,
        row: usize,
        to: *mut Self::Value,
    ) -> Right<Self::Value>;

    /// Packs a left operand of f32 rows; `to` has room for as many rows of `width` elements.
    ///
    /// # Safety
    /// As [`Products::columns_of`]; the width must be a multiple of the steps.
    unsafe fn rows_of(extents: (usize, usize), from: *const f32, row: usize, to: *mut Self::Value)
    -> Left<Self::Value>;

    /// Prepares rows of scores in place for [`Products::transposed`].
    ///
    /// # Safety
    /// (rows, width): the rows, `row` elements apart, must belong to the caller, plus one more if their number is
    /// odd.
    unsafe fn stack(extents: (usize, usize), scores: *mut f32, row: usize);

    /// The transpose of prepared rows: one row for each of `columns` columns from `scores` on, and one step for each of
    /// `steps` rows. The first row is a multiple of the steps.
    ///
    /// # Safety
    /// (columns, steps): the rows must be prepared, and `to` must have room for as many bf16 elements.
    unsafe fn transposed(
        extents: (usize, usize),
        scores: *const f32,
        row: usize,
        to: *mut Self::Value,
    ) -> Left<Self::Value>;
}

/// Rows of the largest tile.
pub(super) const MAX_ROWS: usize = 32;

/// f32 arithmetic.
pub(super) struct InF32;

impl Products for InF32 {
    type Value = f32;
    const ROWS: usize = ROWS;
    const BLOCK: usize = 8 * ROWS;
    const STEPS: usize = 1;

    fn begin() -> Self {
        Self
    }

    #[inline]
    unsafe fn tile(&mut self, extents: (usize, usize, usize), a: Left, b: Right, c: Target, output: Output) {
        // SAFETY: guaranteed by the caller.
        unsafe { tile(extents, a, b, c, output) }
    }

    unsafe fn columns_of(extents: (usize, usize), from: *const f32, row: usize, to: *mut f32, stride: usize) -> Right {
        // SAFETY: guaranteed by the caller.
        unsafe { transpose(extents, from, row, to, stride) }
        Right::new(to, stride)
    }

    unsafe fn steps_of((rows, width): (usize, usize), from: *const f32, row: usize, to: *mut f32) -> Right {
        for i in 0..rows {
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::copy_nonoverlapping(from.add(i * row), to.add(i * width), width) }
        }
        Right::new(to, width)
    }

    unsafe fn query_steps(_: (usize, usize), from: *const f32, row: usize, _: *mut f32) -> Right {
        Right::new(from, row)
    }

    unsafe fn rows_of(_: (usize, usize), from: *const f32, row: usize, _: *mut f32) -> Left {
        Left { at: from, row, k: 1 }
    }

    unsafe fn stack(_: (usize, usize), _: *mut f32, _: usize) {}

    unsafe fn transposed(_: (usize, usize), scores: *const f32, row: usize, _: *mut f32) -> Left {
        Left { at: scores, row: 1, k: row }
    }
}

/// bf16 with AVX512-BF16. Head sizes must be even.
#[cfg(target_arch = "x86_64")]
pub(super) struct InBf16;

#[cfg(target_arch = "x86_64")]
impl Products for InBf16 {
    type Value = bf16;
    const ROWS: usize = ROWS;
    const BLOCK: usize = 8 * ROWS;
    const STEPS: usize = 2;

    fn begin() -> Self {
        Self
    }

    #[inline]
    unsafe fn tile(
        &mut self,
        extents: (usize, usize, usize),
        a: Left<bf16>,
        b: Right<bf16>,
        c: Target,
        output: Output,
    ) {
        // SAFETY: guaranteed by the caller; `forward` and `backward` have selected the path.
        unsafe { dot::tile(extents, a, b, c, output) }
    }

    unsafe fn columns_of(
        (rows, width): (usize, usize),
        from: *const bf16,
        row: usize,
        to: *mut bf16,
        stride: usize,
    ) -> Right<bf16> {
        // SAFETY: guaranteed by the caller. A pair moves as one 32-bit number, which preserves its bits.
        unsafe { transpose((rows, width / 2), from.cast(), row / 2, to.cast(), stride) }
        Right::new(to, stride)
    }

    unsafe fn steps_of((rows, width): (usize, usize), from: *const bf16, row: usize, to: *mut bf16) -> Right<bf16> {
        for first in (0..rows).step_by(2) {
            // SAFETY: guaranteed by the caller.
            let (even, odd, pairs) = unsafe {
                let even = std::slice::from_raw_parts(from.add(first * row), width);
                let odd = match first + 1 < rows {
                    true => std::slice::from_raw_parts(from.add((first + 1) * row), width),
                    false => &[],
                };
                (even, odd, std::slice::from_raw_parts_mut(to.add(first * width), 2 * width))
            };
            interleave(even, odd, pairs);
        }
        Right::new(to, width)
    }

    unsafe fn query_steps(extents: (usize, usize), from: *const bf16, row: usize, to: *mut bf16) -> Right<bf16> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::steps_of(extents, from, row, to) }
    }

    unsafe fn rows_of((rows, width): (usize, usize), from: *const f32, row: usize, to: *mut bf16) -> Left<bf16> {
        for i in 0..rows {
            // SAFETY: guaranteed by the caller.
            let (from, to) = unsafe {
                let from = std::slice::from_raw_parts(from.add(i * row), width);
                (from, std::slice::from_raw_parts_mut(to.add(i * width), width))
            };
            round(from, to);
        }
        Left { at: to, row: width, k: 1 }
    }

    /// Combines each even row with the next one into pairs.
    unsafe fn stack((rows, width): (usize, usize), scores: *mut f32, row: usize) {
        simd::vectorized(
            #[inline(always)]
            || {
                for pair in (0..rows).step_by(2) {
                    // SAFETY: guaranteed by the caller.
                    let (even, odd) = unsafe {
                        let even = std::slice::from_raw_parts_mut(scores.add(pair * row), width);
                        (even, std::slice::from_raw_parts_mut(scores.add((pair + 1) * row), width))
                    };
                    if pair + 1 == rows {
                        odd.fill(0.0);
                    }
                    for (even, odd) in even.iter_mut().zip(odd) {
                        let (low, high) = (even.narrow().to_bits(), odd.narrow().to_bits());
                        *even = f32::from_bits(u32::from(high) << 16 | u32::from(low));
                    }
                }
            },
        );
    }

    unsafe fn transposed(_: (usize, usize), scores: *const f32, row: usize, _: *mut bf16) -> Left<bf16> {
        Left { at: scores.cast(), row: 2, k: 2 * row }
    }
}

/// Whether bf16 tensors are multiplied as pairs.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_paired(heads: Heads) -> bool {
    heads.dim.is_multiple_of(2) && CpuPath::current() >= CpuPath::Avx512Bf16
}
