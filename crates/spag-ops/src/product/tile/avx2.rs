//! Tiles of AVX2: 12 of the 16 registers hold sums, as 6 × 2, 3 × 4, or 1 × 8 for one row.
//!
//! Tiles with fewer rows are wider, so that a single row, which is bound by memory, reads whole panels in order.

use std::arch::x86_64::*;

use super::{COLUMNS, Element, Left, Next, Output, ROWS, Right, Target};

/// Floats per register.
const LANES: usize = 8;

type Kernel<T> = unsafe fn(usize, Left, Right<T>, Target, usize, Output);

struct Kernels<T>(std::marker::PhantomData<T>);

impl<T: Element> Kernels<T> {
    /// Kernels by rows, widest first: (registers per row, kernel).
    const FULL: [&[(usize, Kernel<T>)]; ROWS] = [
        &[(8, kernel::<T, 1, 8, true>), (4, kernel::<T, 1, 4, true>), (1, kernel::<T, 1, 1, true>)],
        &[(4, kernel::<T, 2, 4, true>), (2, kernel::<T, 2, 2, true>), (1, kernel::<T, 2, 1, true>)],
        &[(4, kernel::<T, 3, 4, true>), (2, kernel::<T, 3, 2, true>), (1, kernel::<T, 3, 1, true>)],
        &[(2, kernel::<T, 4, 2, true>), (1, kernel::<T, 4, 1, true>)],
        &[(2, kernel::<T, 5, 2, true>), (1, kernel::<T, 5, 1, true>)],
        &[(2, kernel::<T, 6, 2, true>), (1, kernel::<T, 6, 1, true>)],
    ];
    /// Kernels by rows for less than a register.
    const RAGGED: [Kernel<T>; ROWS] = [
        kernel::<T, 1, 1, false>,
        kernel::<T, 2, 1, false>,
        kernel::<T, 3, 1, false>,
        kernel::<T, 4, 1, false>,
        kernel::<T, 5, 1, false>,
        kernel::<T, 6, 1, false>,
    ];
}

/// # Safety
/// As [`super::tile`], on a processor with AVX2 and FMA.
#[inline]
pub(crate) unsafe fn tile<T: Element>(
    (m, k, n): (usize, usize, usize),
    a: Left,
    b: Right<T>,
    c: Target,
    output: Output,
) {
    debug_assert!(m <= ROWS && n <= COLUMNS);
    if m == 0 {
        return;
    }
    if (m, n) == (ROWS, 2 * LANES) {
        // SAFETY: guaranteed by the caller.
        return unsafe { kernel::<T, ROWS, 2, true>(k, a, b, c, LANES, output) };
    }
    let mut column = 0;
    for (registers, kernel) in Kernels::<T>::FULL[m - 1] {
        while n - column >= registers * LANES {
            // SAFETY: guaranteed by the caller; these columns are below n.
            unsafe { kernel(k, a, b.columns(column), c.columns(column), LANES, output) };
            column += registers * LANES;
        }
    }
    if column < n {
        // SAFETY: as above; the kernel uses n - column columns.
        unsafe { Kernels::<T>::RAGGED[m - 1](k, a, b.columns(column), c.columns(column), n - column, output) }
    }
}

/// # Safety
/// As [`super::tile`] for M rows and V registers of columns; if they are not FULL, for the first `columns` of one register.
#[target_feature(enable = "avx2,fma")]
unsafe fn kernel<T: Element, const M: usize, const V: usize, const FULL: bool>(
    k: usize,
    a: Left,
    b: Right<T>,
    c: Target,
    columns: usize,
    output: Output,
) {
    // SAFETY: rows below M, the columns, and steps below k are within the extents.
    unsafe {
        let mut sums = [[_mm256_setzero_ps(); V]; M];
        // Two pointers and the row stride address all rows: one pointer per row would exceed the registers.
        let (mut left, mut right) = ([a.at, a.at.wrapping_add(3 * a.row)], b.at);
        let (mut next, advance) = match b.next {
            Next::Unknown => (b.at, 0),
            Next::Stream(next) => (next, b.k),
            Next::Spread(next) => (next, T::PER_LINE),
        };
        let streams = matches!(b.next, Next::Stream(_));
        match output {
            Output::Overwrite => {}
            Output::Accumulate => {
                for i in 0..M {
                    for v in (0..V).step_by(2) {
                        _mm_prefetch::<_MM_HINT_T0>(c.base.wrapping_add(i * c.row + v * LANES).cast());
                    }
                }
            }
            Output::Continue => {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let base = c.base.add(i * c.row + v * LANES);
                        *sum = if FULL { _mm256_loadu_ps(base) } else { _mm256_maskload_ps(base, mask(columns)) };
                    }
                }
            }
        }
        for _ in 0..k {
            if advance != 0 {
                _mm_prefetch::<_MM_HINT_T0>(next.cast());
                if streams {
                    for v in (T::PER_LINE / LANES..V).step_by(T::PER_LINE / LANES) {
                        _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(v * LANES).cast());
                    }
                }
                next = next.wrapping_add(advance);
            }
            let value = |i: usize| _mm256_broadcast_ss(&*left[i / 3].wrapping_add(i % 3 * a.row));
            let row = |v: usize| if FULL { T::load8(right.add(v * LANES)) } else { first::<T>(columns, right) };
            // Keeps in registers what is read once: the operand with fewer registers.
            if M <= V {
                let mut values = [_mm256_setzero_ps(); M];
                for (i, x) in values.iter_mut().enumerate() {
                    *x = value(i);
                }
                for v in 0..V {
                    let row = row(v);
                    for (sums, value) in sums.iter_mut().zip(&values) {
                        sums[v] = _mm256_fmadd_ps(*value, row, sums[v]);
                    }
                }
            } else {
                let mut rows = [_mm256_setzero_ps(); V];
                for (v, x) in rows.iter_mut().enumerate() {
                    *x = row(v);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let value = value(i);
                    for (sum, row) in sums.iter_mut().zip(&rows) {
                        *sum = _mm256_fmadd_ps(value, *row, *sum);
                    }
                }
            }
            left = left.map(|left| left.wrapping_add(a.k));
            right = right.wrapping_add(b.k);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let (base, at) = (c.base.add(i * c.row + v * LANES), c.at.add(i * c.row + v * LANES));
                if FULL {
                    let sum = match output {
                        Output::Overwrite | Output::Continue => *sum,
                        Output::Accumulate => _mm256_add_ps(_mm256_loadu_ps(base), *sum),
                    };
                    _mm256_storeu_ps(at, sum);
                } else {
                    let mask = mask(columns);
                    let sum = match output {
                        Output::Overwrite | Output::Continue => *sum,
                        Output::Accumulate => _mm256_add_ps(_mm256_maskload_ps(base, mask), *sum),
                    };
                    _mm256_maskstore_ps(at, mask, sum);
                }
            }
        }
    }
}

/// A mask of the first `count` lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn mask(count: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// The first `count` elements, fewer than a register, converted to f32; the other lanes are zero.
///
/// # Safety
/// They must be readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn first<T: Element>(count: usize, at: *const T) -> __m256 {
    if T::IS_F32 {
        // SAFETY: guaranteed by the caller; the mask excludes the rest.
        return unsafe { _mm256_maskload_ps(at.cast(), mask(count)) };
    }
    let mut values = [0f32; LANES];
    for (i, value) in values.iter_mut().enumerate().take(count) {
        // SAFETY: guaranteed by the caller.
        *value = unsafe { *at.add(i) }.widen();
    }
    // SAFETY: eight floats.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}
