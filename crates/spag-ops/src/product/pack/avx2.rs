//! Packing with AVX2.

use std::arch::x86_64::*;

use super::STRIP;
use super::portable::columns_of;
use crate::product::ROWS;
use crate::product::source::Source;

/// Floats per register.
const LANES: usize = 8;

/// As [`super::portable::columns`].
///
/// # Safety
/// As [`super::portable::columns`], on a processor with AVX2.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn columns<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    let (full_columns, full_steps) = (n / LANES * LANES, k / LANES * LANES);
    for column in (0..full_columns).step_by(LANES) {
        for step in (0..full_steps).step_by(LANES) {
            // SAFETY: eight rows and eight columns are within the extents.
            unsafe {
                let (from, to) = (from.add(column * stride + step), panel.add(step * width + column));
                let mut block = [_mm256_setzero_ps(); LANES];
                for (i, row) in block.iter_mut().enumerate() {
                    *row = S::load8(from.add(i * stride));
                }
                for (i, row) in transpose(block).iter().enumerate() {
                    _mm256_storeu_ps(to.add(i * width), *row);
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

/// As [`super::portable::rows`].
///
/// # Safety
/// As [`columns`].
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn rows<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    let full = n / LANES * LANES;
    for step in 0..k {
        // SAFETY: row `step` has n columns.
        unsafe {
            let (from, to) = (from.add(step * stride), panel.add(step * width));
            for column in (0..full).step_by(LANES) {
                _mm256_storeu_ps(to.add(column), S::load8(from.add(column)));
            }
            for column in full..n {
                *to.add(column) = S::value(*from.add(column));
            }
        }
    }
}

/// As [`super::portable::strips`].
///
/// # Safety
/// As [`columns`].
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn strips<S: Source>(
    (m, k, distance): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    strips: *mut f32,
) {
    // Strips whose steps can be read as a register: two columns more.
    let whole = (m + ROWS).saturating_sub(LANES) / ROWS;
    for step in 0..k {
        // SAFETY: row `step` of `from` has m columns.
        unsafe {
            let (from, to) = (from.add(step * stride), strips.add(step * STRIP));
            for strip in 0..whole {
                _mm256_storeu_ps(to.add(strip * distance), S::load8(from.add(strip * ROWS)));
            }
            for column in whole * ROWS..m {
                *to.add(column / ROWS * distance + column % ROWS) = S::value(*from.add(column));
            }
        }
    }
}

/// Transposes 8 × 8 floats: pairs, quadruples, then 128-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [__m256; LANES]) -> [__m256; LANES] {
    let zero = _mm256_setzero_ps();
    let (mut pairs, mut quads, mut result) = ([zero; LANES], [zero; LANES], [zero; LANES]);
    for i in 0..4 {
        pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for i in 0..2 {
        let (a, b) = (_mm256_castps_pd(pairs[4 * i]), _mm256_castps_pd(pairs[4 * i + 1]));
        let (c, d) = (_mm256_castps_pd(pairs[4 * i + 2]), _mm256_castps_pd(pairs[4 * i + 3]));
        quads[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        quads[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        quads[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        quads[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    for i in 0..4 {
        result[i] = _mm256_permute2f128_ps::<0x20>(quads[i], quads[i + 4]);
        result[i + 4] = _mm256_permute2f128_ps::<0x31>(quads[i], quads[i + 4]);
    }
    result
}
