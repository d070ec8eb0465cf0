//! AVX512-BF16 tiles: dot products of bf16 pairs, accumulated in f32.
//!
//! Every element of the result is one chain of `VDPBF16PS` over the pairs of k, independent of the tile's size, so rows
//! are independent of each other. The instruction first adds the product of the odd elements, then that of the even
//! ones, each rounded to nearest even, and treats denormals as zero.

use std::arch::x86_64::*;

use half::bf16;

use super::buffer::LANES;
use super::{COLUMNS, Element, Format, Left, Next, Output, Right, Target, pairs};

/// Rows of a full tile: 6 × 4 registers of sums, 4 of the right operand and one broadcast use 29 of the 32 registers.
const ROWS: usize = 6;
/// Registers of a full step: the pairs of 64 columns.
const REGISTERS: usize = COLUMNS / LANES;

/// Panels of pairs, multiplied with AVX512-BF16.
pub(crate) struct Pairs;

impl Format for Pairs {
    type Weight = bf16;
    type Activation = bf16;

    const ROWS: usize = ROWS;
    const DEPTH: usize = 512;
    const STEPS: usize = 2;

    fn begin() -> Self {
        Self
    }

    fn index(k: usize, step: usize, column: usize) -> usize {
        pairs::index::<COLUMNS>(k, step, column)
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
        // SAFETY: guaranteed by the caller. A panel has all of its columns.
        unsafe { tile(extents, a, b, c, output) }
    }
}

/// [`super::tile`] for pairs: consecutive pairs of steps of `b` are 2·`b.k` elements apart.
///
/// # Safety
/// As [`super::tile`], on a processor with AVX512-BF16. Columns of `b` must be readable up to a multiple of [`LANES`].
#[inline]
pub(crate) unsafe fn tile((m, k, n): (usize, usize, usize), a: Left<bf16>, b: Right<bf16>, c: Target, output: Output) {
    type Kernel = unsafe fn(usize, Left<bf16>, Right<bf16>, Target, usize, Output);
    /// Kernels by rows and registers per row.
    const KERNELS: [[Kernel; REGISTERS]; ROWS] = [
        [kernel::<1, 1>, kernel::<1, 2>, kernel::<1, 3>, kernel::<1, 4>],
        [kernel::<2, 1>, kernel::<2, 2>, kernel::<2, 3>, kernel::<2, 4>],
        [kernel::<3, 1>, kernel::<3, 2>, kernel::<3, 3>, kernel::<3, 4>],
        [kernel::<4, 1>, kernel::<4, 2>, kernel::<4, 3>, kernel::<4, 4>],
        [kernel::<5, 1>, kernel::<5, 2>, kernel::<5, 3>, kernel::<5, 4>],
        [kernel::<6, 1>, kernel::<6, 2>, kernel::<6, 3>, kernel::<6, 4>],
    ];
    debug_assert!(m <= ROWS && n <= COLUMNS);
    if m > 0 && n > 0 {
        // SAFETY: guaranteed by the caller.
        unsafe { KERNELS[m - 1][n.div_ceil(LANES) - 1](k, a, b, c, n, output) }
    }
}

/// # Safety
/// As [`tile`] for M rows and n columns in V registers.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn kernel<const M: usize, const V: usize>(
    k: usize,
    a: Left<bf16>,
    b: Right<bf16>,
    c: Target,
    n: usize,
    output: Output,
) {
    let mut sums = [[_mm512_setzero_ps(); V]; M];
    let (mut next, advance, lines) = match b.next {
        Next::Unknown => (b.at, 0, 0),
        Next::Stream(next) => (next, 2 * COLUMNS, REGISTERS),
        Next::Spread(next) => (next, 2 * bf16::PER_LINE, 2),
    };
    // SAFETY: rows below M, all columns of a panel and steps below k, the last of which may lack a partner.
    unsafe {
        if output == Output::Continue {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm512_maskz_loadu_ps(keep(v * LANES, n), c.base.wrapping_add(i * c.row + v * LANES));
                }
            }
        }
        // The sums are added to these lines at the end. They are loaded while the products are computed.
        for line in (0..M).flat_map(|i| (0..V).map(move |v| i * c.row + v * LANES)) {
            _mm_prefetch::<_MM_HINT_T0>(c.base.wrapping_add(line).cast());
        }
        for step in (0..k & !1).step_by(2) {
            for line in 0..lines {
                _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(line * bf16::PER_LINE).cast());
            }
            next = next.wrapping_add(advance);
            let at = b.at.add(step * b.k);
            let mut columns = [_mm512_setzero_si512(); V];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = _mm512_loadu_si512(at.add(v * bf16::PER_LINE).cast());
            }
            add_products(&mut sums, a, step, columns);
        }
        if k % 2 == 1 {
            let at = b.at.add((k - 1) * b.k);
            let mut columns = [_mm512_setzero_si512(); V];
            for (v, column) in columns.iter_mut().enumerate() {
                // Each element is paired with zero.
                *column = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.add(v * LANES).cast()));
            }
            add_products(&mut sums, a, k - 1, columns);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                add_to(*sum, c, i, v * LANES, n, output);
            }
        }
    }
}

/// Adds the products of a pair of steps.
///
/// # Safety
/// M rows of `a` must have the steps `step` and `step + 1`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn add_products<const M: usize, const V: usize>(
    sums: &mut [[__m512; V]; M],
    a: Left<bf16>,
    step: usize,
    columns: [__m512i; V],
) {
    for (i, sums) in sums.iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        let pair = unsafe { a.at.add(i * a.row + step * a.k).cast::<i32>().read_unaligned() };
        let pair = bf16_pairs(_mm512_set1_epi32(pair));
        for (sum, column) in sums.iter_mut().zip(columns) {
            *sum = _mm512_dpbf16_ps(*sum, pair, bf16_pairs(column));
        }
    }
}

/// Reinterprets bits as pairs of bf16.
#[inline]
#[target_feature(enable = "avx512f")]
fn bf16_pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits, and all bit patterns are valid.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}

/// Writes sums to the columns of row `row` from `column` up to `n`.
///
/// # Safety
/// The row must have n columns, which nothing else uses.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_to(sums: __m512, c: Target, row: usize, column: usize, n: usize, output: Output) {
    let keep = keep(column, n);
    let offset = row * c.row + column;
    // SAFETY: the mask excludes columns from n on.
    unsafe {
        let sums = match output {
            Output::Overwrite | Output::Continue => sums,
            Output::Accumulate => _mm512_add_ps(_mm512_maskz_loadu_ps(keep, c.base.wrapping_add(offset)), sums),
        };
        _mm512_mask_storeu_ps(c.at.wrapping_add(offset), keep, sums);
    }
}

/// The register mask of the columns from `column` up to `n`.
#[inline(always)]
fn keep(column: usize, n: usize) -> __mmask16 {
    match n.saturating_sub(column) {
        columns if columns < LANES => (1 << columns) - 1,
        _ => u16::MAX,
    }
}
