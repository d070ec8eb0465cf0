//! Packing with AVX-512.

use std::arch::x86_64::*;

use super::STRIP;
use crate::product::ROWS;
use crate::product::buffer::LANES;
use crate::product::source::Source;

/// As [`super::portable::columns`].
///
/// # Safety
/// As [`super::portable::columns`], on a processor with AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn columns<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    for column in (0..width).step_by(LANES) {
        let count = n.saturating_sub(column).min(LANES);
        for step in (0..k).step_by(LANES) {
            let steps = (k - step).min(LANES);
            // SAFETY: `count` rows and `steps` columns are within the extents; masks exclude the rest.
            unsafe {
                let (from, to) = (from.add(column * stride + step), panel.add(step * width + column));
                let mut block = [_mm512_setzero_ps(); LANES];
                if count == LANES && steps == LANES {
                    for (i, row) in block.iter_mut().enumerate() {
                        *row = S::load16(u16::MAX, from.add(i * stride));
                    }
                    for (i, row) in transpose(block).iter().enumerate() {
                        _mm512_storeu_ps(to.add(i * width), *row);
                    }
                } else {
                    for (i, row) in block.iter_mut().enumerate().take(count) {
                        *row = S::load16(mask(steps), from.add(i * stride));
                    }
                    for (i, row) in transpose(block).iter().enumerate().take(steps) {
                        _mm512_storeu_ps(to.add(i * width), *row);
                    }
                }
            }
        }
    }
}

/// As [`super::portable::rows`].
///
/// # Safety
/// As [`columns`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn rows<S: Source>(
    (k, n, width): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    panel: *mut f32,
) {
    for step in 0..k {
        // SAFETY: row `step` has n columns; masks exclude the rest.
        unsafe {
            let (from, to) = (from.add(step * stride), panel.add(step * width));
            for column in (0..n).step_by(LANES) {
                let keep = mask((n - column).min(LANES));
                _mm512_mask_storeu_ps(to.add(column), keep, S::load16(keep, from.add(column)));
            }
        }
    }
}

/// As [`super::portable::strips`].
///
/// # Safety
/// As [`columns`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn strips<S: Source>(
    (m, k, distance): (usize, usize, usize),
    from: *const S::Stored,
    stride: usize,
    strips: *mut f32,
) {
    for step in 0..k {
        for (tile, row) in (0..m).step_by(ROWS).enumerate() {
            // SAFETY: row `step` of `from` has m columns; the mask excludes the rest.
            unsafe {
                let values = S::load16(mask(ROWS.min(m - row)), from.add(step * stride + row));
                _mm256_storeu_ps(strips.add(tile * distance + step * STRIP), _mm512_castps512_ps256(values));
            }
        }
    }
}

/// A mask of the first `count` lanes.
fn mask(count: usize) -> __mmask16 {
    if count >= LANES { u16::MAX } else { (1 << count) - 1 }
}

/// Transposes 16 × 16 floats: pairs, quadruples, then 128-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512; LANES]) -> [__m512; LANES] {
    let zero = _mm512_setzero_ps();
    let (mut pairs, mut quads, mut result) = ([zero; LANES], [zero; LANES], [zero; LANES]);
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for i in 0..4 {
        let (a, b) = (_mm512_castps_pd(pairs[4 * i]), _mm512_castps_pd(pairs[4 * i + 1]));
        let (c, d) = (_mm512_castps_pd(pairs[4 * i + 2]), _mm512_castps_pd(pairs[4 * i + 3]));
        quads[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        quads[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        quads[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        quads[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for i in 0..4 {
        let (a, b, c, d) = (quads[i], quads[i + 4], quads[i + 8], quads[i + 12]);
        let (ab_even, ab_odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (cd_even, cd_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        result[i] = _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even);
        result[i + 8] = _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even);
        result[i + 4] = _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd);
        result[i + 12] = _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd);
    }
    result
}
