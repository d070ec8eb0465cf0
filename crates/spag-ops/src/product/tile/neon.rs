//! Tiles of NEON: at most 24 of the 32 registers hold sums, as 6 × 4, 3 × 8, or 1 × 16 for one row.
//!
//! Tiles with fewer rows are wider, so that a single row, which is bound by memory, reads whole panels in order. There
//! is no prefetching, for lack of a stable intrinsic.

use std::arch::aarch64::*;

use super::{COLUMNS, Element, Left, Output, ROWS, Right, Target};

/// Floats per register.
const LANES: usize = 4;
/// Registers of a row of a full tile.
const REGISTERS: usize = 4;

type Kernel<T> = unsafe fn(usize, Left, Right<T>, Target, usize, Output);

struct Kernels<T>(std::marker::PhantomData<T>);

impl<T: Element> Kernels<T> {
    /// Kernels by rows, widest first: (registers per row, kernel).
    const FULL: [&[(usize, Kernel<T>)]; ROWS] = [
        &[(16, kernel::<T, 1, 16, true>), (4, kernel::<T, 1, 4, true>), (1, kernel::<T, 1, 1, true>)],
        &[(8, kernel::<T, 2, 8, true>), (4, kernel::<T, 2, 4, true>), (1, kernel::<T, 2, 1, true>)],
        &[(8, kernel::<T, 3, 8, true>), (4, kernel::<T, 3, 4, true>), (1, kernel::<T, 3, 1, true>)],
        &[(4, kernel::<T, 4, 4, true>), (1, kernel::<T, 4, 1, true>)],
        &[(4, kernel::<T, 5, 4, true>), (1, kernel::<T, 5, 1, true>)],
        &[(4, kernel::<T, 6, 4, true>), (1, kernel::<T, 6, 1, true>)],
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
/// As [`super::tile`], on a processor with NEON.
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
    if (m, n) == (ROWS, REGISTERS * LANES) {
        // SAFETY: guaranteed by the caller.
        return unsafe { kernel::<T, ROWS, REGISTERS, true>(k, a, b, c, LANES, output) };
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
#[target_feature(enable = "neon")]
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
        let mut sums = [[vdupq_n_f32(0.0); V]; M];
        let (mut left, mut right) = (a.at, b.at);
        if output == Output::Continue {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = load::<f32, FULL>(columns, c.base.add(i * c.row + v * LANES));
                }
            }
        }
        for _ in 0..k {
            let value = |i: usize| *left.wrapping_add(i * a.row);
            let row = |v: usize| load::<T, FULL>(columns, right.add(v * LANES));
            // Keeps in registers what is read once: the operand with fewer registers.
            if M <= V {
                let mut values = [0f32; M];
                for (i, x) in values.iter_mut().enumerate() {
                    *x = value(i);
                }
                for v in 0..V {
                    let row = row(v);
                    for (sums, value) in sums.iter_mut().zip(&values) {
                        sums[v] = vfmaq_n_f32(sums[v], row, *value);
                    }
                }
            } else {
                let mut rows = [vdupq_n_f32(0.0); V];
                for (v, x) in rows.iter_mut().enumerate() {
                    *x = row(v);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let value = value(i);
                    for (sum, row) in sums.iter_mut().zip(&rows) {
                        *sum = vfmaq_n_f32(*sum, *row, value);
                    }
                }
            }
            left = left.wrapping_add(a.k);
            right = right.wrapping_add(b.k);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let (base, at) = (c.base.add(i * c.row + v * LANES), c.at.add(i * c.row + v * LANES));
                let sum = match output {
                    Output::Overwrite | Output::Continue => *sum,
                    Output::Accumulate => vaddq_f32(load::<f32, FULL>(columns, base), *sum),
                };
                store::<FULL>(columns, at, sum);
            }
        }
    }
}

/// A register of elements, converted to f32. If not FULL, only the first `count` (fewer than a register); the other lanes
/// are zero.
///
/// # Safety
/// They must be readable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load<T: Element, const FULL: bool>(count: usize, at: *const T) -> float32x4_t {
    if FULL {
        // SAFETY: guaranteed by the caller.
        return unsafe { T::load4(at) };
    }
    // The compiler would turn a loop up to `count` into a `memcpy` call.
    let value = |i: usize| match i < count {
        // SAFETY: guaranteed by the caller.
        true => unsafe { *at.add(i) }.widen(),
        false => 0.0,
    };
    let values = [value(0), value(1), value(2), value(3)];
    // SAFETY: four floats.
    unsafe { vld1q_f32(values.as_ptr()) }
}

/// Writes a register of floats. If not FULL, only the first `count`, 1 to 3.
///
/// # Safety
/// Their places must belong to the caller.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store<const FULL: bool>(count: usize, at: *mut f32, values: float32x4_t) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if FULL {
            return vst1q_f32(at, values);
        }
        vst1q_lane_f32::<0>(at, values);
        if count > 1 {
            vst1q_lane_f32::<1>(at.add(1), values);
        }
        if count > 2 {
            vst1q_lane_f32::<2>(at.add(2), values);
        }
    }
}
