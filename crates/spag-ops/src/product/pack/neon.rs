//! Packing with NEON.

use std::arch::aarch64::*;

use super::STRIP;
use super::portable::columns_of;
use crate::product::ROWS;
use crate::product::source::Source;

/// Every Arm processor has NEON, so the compiler vectorizes this loop for it.
pub(crate) use super::portable::rows;

/// Floats per register.
const LANES: usize = 4;

/// As [`super::portable::columns`].
///
/// # Safety
/// As [`super::portable::columns`], on a processor with NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn columns<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    let (full_columns, full_steps) = (n / LANES * LANES, k / LANES * LANES);
    for column in (0..full_columns).step_by(LANES) {
        for step in (0..full_steps).step_by(LANES) {
            // SAFETY: four rows and four columns are within the extents.
            unsafe {
                let (from, to) = (from.add(column * stride + step), panel.add(step * width + column));
                let mut block = [vdupq_n_f32(0.0); LANES];
                for (i, row) in block.iter_mut().enumerate() {
                    *row = S::load4(from.add(i * stride));
                }
                for (i, row) in transpose(block).iter().enumerate() {
                    vst1q_f32(to.add(i * width), *row);
                }
            }
        }
    }
    // SAFETY: the rest of the extents: the last steps of whole registers, and the last columns.
    unsafe {
        if full_steps < k {
            columns_of::<S>((0..full_columns, full_steps..k), (n, width), from, stride, panel);
        }
        if full_columns < width {
            columns_of::<S>((full_columns..width, 0..k), (n, width), from, stride, panel);
        }
    }
}

/// As [`super::portable::strips`].
///
/// # Safety
/// As [`columns`].
#[target_feature(enable = "neon")]
pub(crate) unsafe fn strips<S: Source>(
    (m, k, distance): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    strips: *mut f32,
) {
    // Strips whose steps can be read as two registers: two columns more.
    let whole = (m + ROWS).saturating_sub(STRIP) / ROWS;
    for step in 0..k {
        // SAFETY: row `step` of `from` has m columns.
        unsafe {
            let (from, to) = (from.add(step * stride), strips.add(step * STRIP));
            for strip in 0..whole {
                let (from, to) = (from.add(strip * ROWS), to.add(strip * distance));
                vst1q_f32(to, S::load4(from));
                vst1q_f32(to.add(LANES), S::load4(from.add(LANES)));
            }
            for column in whole * ROWS..m {
                *to.add(column / ROWS * distance + column % ROWS) = S::value(*from.add(column));
            }
        }
    }
}

/// Transposes 4 × 4 floats: pairs, then quadruples.
#[inline]
#[target_feature(enable = "neon")]
fn transpose([a, b, c, d]: [float32x4_t; LANES]) -> [float32x4_t; LANES] {
    let pair = |x, y| (vreinterpretq_f64_f32(vtrn1q_f32(x, y)), vreinterpretq_f64_f32(vtrn2q_f32(x, y)));
    let ((ab_even, ab_odd), (cd_even, cd_odd)) = (pair(a, b), pair(c, d));
    [
        vreinterpretq_f32_f64(vtrn1q_f64(ab_even, cd_even)),
        vreinterpretq_f32_f64(vtrn1q_f64(ab_odd, cd_odd)),
        vreinterpretq_f32_f64(vtrn2q_f64(ab_even, cd_even)),
        vreinterpretq_f32_f64(vtrn2q_f64(ab_odd, cd_odd)),
    ]
}
