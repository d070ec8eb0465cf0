//! Tiles of AVX-512: 6 × 4 registers of sums, 4 of the right operand and one broadcast use 29 of the 32 registers.

use std::arch::x86_64::*;

use super::{COLUMNS, Element, Left, Next, Output, ROWS, Right, Target};

/// Floats per register.
const LANES: usize = 16;
/// Prefetch distance of the right operand in steps: the latency of the second-level cache.
const AHEAD: usize = 8;

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
        let (mut next, advance) = match b.next {
            Next::Unknown => (b.at.wrapping_add(AHEAD * b.k), b.k),
            Next::Stream(next) => (next, b.k),
            Next::Spread(next) => (next, T::PER_LINE),
        };
        let (streams, spreads) = (matches!(b.next, Next::Stream(_)), matches!(b.next, Next::Spread(_)));
        match output {
            Output::Overwrite => {}
            Output::Accumulate => {
                for i in 0..M {
                    for v in 0..V {
                        _mm_prefetch::<_MM_HINT_T0>(c.base.wrapping_add(i * c.row + v * LANES).cast());
                    }
                }
            }
            Output::Continue => {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let keep = if v + 1 == V { mask } else { u16::MAX };
                        *sum = _mm512_maskz_loadu_ps(keep, c.base.add(i * c.row + v * LANES));
                    }
                }
            }
        }
        for _ in 0..k {
            if spreads {
                _mm_prefetch::<_MM_HINT_T1>(next.cast());
            } else if streams {
                for v in (0..V).step_by(T::PER_LINE / LANES) {
                    _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(v * LANES).cast());
                }
            } else {
                for v in (0..V).step_by(T::PER_LINE / LANES) {
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(v * LANES).cast());
                }
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
                    Output::Overwrite | Output::Continue => *sum,
                    Output::Accumulate => _mm512_add_ps(_mm512_maskz_loadu_ps(keep, c.base.add(offset)), *sum),
                };
                _mm512_mask_storeu_ps(c.at.add(offset), keep, sum);
            }
        }
    }
}
