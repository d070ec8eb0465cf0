//! The innermost product: a few rows by at most 64 columns, with sums in registers.
//!
//! Every element of the result is one chain of fused multiply-adds over k, whatever the tile's size, so a row never
//! depends on other rows.

use super::{Element, Left, Next, Output, Right, Target};

/// Rows of a full tile: 6 × 4 registers of sums, 4 of the right operand and one broadcast use 29 of the 32 registers.
pub(crate) const ROWS: usize = 6;
/// Columns of a full tile.
pub(crate) const COLUMNS: usize = 64;

/// `c[m, n] = [c +] a[m, k]·b[k, n]` with m ≤ [`ROWS`] and n ≤ [`COLUMNS`].
///
/// # Safety
/// All elements within the extents must be readable (`a`, `b`) or exclusively owned (`c`).
#[inline]
pub(crate) unsafe fn tile<T: Element>(extents: (usize, usize, usize), a: Left, b: Right<T>, c: Target, output: Output) {
    #[cfg(target_arch = "x86_64")]
    if super::wide() {
        // SAFETY: the processor has AVX-512; the extents are guaranteed by the caller.
        return unsafe { avx512::tile(extents, a, b, c, output) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { portable::tile(extents, a, b, c, output) }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    use super::{COLUMNS, Element, Left, Next, Output, ROWS, Right, Target};

    /// Floats per register.
    const LANES: usize = 16;

    type Kernel<T> = unsafe fn(usize, Left, Right<T>, Target, __mmask16, Output);

    struct Kernels<T>(std::marker::PhantomData<T>);

    impl<T: Element> Kernels<T> {
        /// Kernels by rows and registers per row.
        const ALL: [[Kernel<T>; 4]; ROWS] = [
            [kernel::<T, 1, 1>, kernel::<T, 1, 2>, kernel::<T, 1, 3>, kernel::<T, 1, 4>],
            [kernel::<T, 2, 1>, kernel::<T, 2, 2>, kernel::<T, 2, 3>, kernel::<T, 2, 4>],
            [kernel::<T, 3, 1>, kernel::<T, 3, 2>, kernel::<T, 3, 3>, kernel::<T, 3, 4>],
            [kernel::<T, 4, 1>, kernel::<T, 4, 2>, kernel::<T, 4, 3>, kernel::<T, 4, 4>],
            [kernel::<T, 5, 1>, kernel::<T, 5, 2>, kernel::<T, 5, 3>, kernel::<T, 5, 4>],
            [kernel::<T, 6, 1>, kernel::<T, 6, 2>, kernel::<T, 6, 3>, kernel::<T, 6, 4>],
        ];
    }

    /// # Safety
    /// As [`super::tile`], on a processor with AVX-512.
    #[inline]
    pub(crate) unsafe fn tile<T: Element>(
        (m, k, n): (usize, usize, usize),
        a: Left,
        b: Right<T>,
        c: Target,
        output: Output,
    ) {
        debug_assert!(m <= ROWS && n <= COLUMNS);
        if m == 0 || n == 0 {
            return;
        }
        let registers = n.div_ceil(LANES);
        let mask = u16::MAX >> (registers * LANES - n);
        // SAFETY: guaranteed by the caller; the mask keeps the last register inside the n columns.
        unsafe { Kernels::<T>::ALL[m - 1][registers - 1](k, a, b, c, mask, output) }
    }

    /// # Safety
    /// As [`super::tile`] for M rows and, in the last of V registers, the columns of `mask`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn kernel<T: Element, const M: usize, const V: usize>(
        k: usize,
        a: Left,
        b: Right<T>,
        c: Target,
        mask: __mmask16,
        output: Output,
    ) {
        // SAFETY: rows below M, columns of full registers or of the mask, and steps below k are within the extents.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); V]; M];
            let (mut left, mut right) = (a.at, b.at);
            let (mut next, advance, stream) = match b.next {
                Next::Unknown => (b.at, 0, false),
                Next::Stream(next) => (next, b.k, true),
                Next::Spread(next) => (next, T::PER_LINE, false),
            };
            for _ in 0..k {
                if stream {
                    for v in (0..V).step_by(T::PER_LINE / LANES) {
                        _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(v * LANES).cast());
                    }
                } else {
                    _mm_prefetch::<_MM_HINT_T1>(next.cast());
                }
                next = next.wrapping_add(advance);
                let mut columns = [_mm512_setzero_ps(); V];
                for (v, column) in columns.iter_mut().enumerate() {
                    let at = right.add(v * LANES);
                    *column = T::load(if v + 1 == V { mask } else { u16::MAX }, at);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let value = _mm512_set1_ps(*left.add(i * a.row));
                    for (sum, column) in sums.iter_mut().zip(&columns) {
                        *sum = _mm512_fmadd_ps(value, *column, *sum);
                    }
                }
                left = left.wrapping_add(a.k);
                right = right.wrapping_add(b.k);
            }
            for (i, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    let offset = i * c.row + v * LANES;
                    let keep = if v + 1 == V { mask } else { u16::MAX };
                    let sum = match output {
                        Output::Overwrite => *sum,
                        Output::Accumulate => _mm512_add_ps(_mm512_maskz_loadu_ps(keep, c.base.add(offset)), *sum),
                    };
                    _mm512_mask_storeu_ps(c.at.add(offset), keep, sum);
                }
            }
        }
    }
}

pub(super) mod portable {
    use super::{Element, Left, Output, Right, Target};
    use crate::ops::simd;

    /// A block whose sums fit the registers of AVX2 (6 × 2 of 8 floats) and NEON.
    const ROWS: usize = 6;
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
        for first in (0..n).step_by(COLUMNS) {
            let width = COLUMNS.min(n - first);
            let (b, c) = (b.columns(first), c.columns(first));
            simd::vectorized(
                #[inline(always)]
                || match (m, width) {
                    // SAFETY: the columns from `first` on are within the caller's extents.
                    (ROWS, COLUMNS) => unsafe { full(k, a, b, c, output) },
                    // SAFETY: as above.
                    _ => unsafe { edge((m, k, width), a, b, c, output) },
                },
            );
        }
    }

    /// # Safety
    /// As [`super::tile`] for a full block.
    #[inline(always)]
    unsafe fn full<T: Element>(k: usize, a: Left, b: Right<T>, c: Target, output: Output) {
        let mut sums = [[0f32; COLUMNS]; ROWS];
        for p in 0..k {
            // SAFETY: step p of the extents.
            unsafe {
                let right = std::slice::from_raw_parts(b.at.add(p * b.k), COLUMNS);
                for (i, sums) in sums.iter_mut().enumerate() {
                    let value = *a.at.add(i * a.row + p * a.k);
                    for j in 0..COLUMNS {
                        sums[j] = value.mul_add(right[j].widen(), sums[j]);
                    }
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            // SAFETY: row i of the extents.
            unsafe { write(c, i, sums, output) }
        }
    }

    /// # Safety
    /// As [`super::tile`].
    #[inline(always)]
    unsafe fn edge<T: Element>((m, k, n): (usize, usize, usize), a: Left, b: Right<T>, c: Target, output: Output) {
        for i in 0..m {
            let mut sums = [0f32; COLUMNS];
            for p in 0..k {
                // SAFETY: step p and row i of the extents.
                unsafe {
                    let right = std::slice::from_raw_parts(b.at.add(p * b.k), n);
                    let value = *a.at.add(i * a.row + p * a.k);
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = value.mul_add(right.widen(), *sum);
                    }
                }
            }
            // SAFETY: row i of the extents.
            unsafe { write(c, i, &sums[..n], output) }
        }
    }

    /// # Safety
    /// Row `i` of the target must have as many elements as there are sums.
    #[inline(always)]
    unsafe fn write(c: Target, i: usize, sums: &[f32], output: Output) {
        for (j, sum) in sums.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let base = match output {
                    Output::Overwrite => 0.0,
                    Output::Accumulate => *c.base.add(i * c.row + j),
                };
                *c.at.add(i * c.row + j) = base + sum;
            }
        }
    }
}
