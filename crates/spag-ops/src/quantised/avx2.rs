//! AVX2, and AVX-VNNI, which has the product of four pairs of bytes as one instruction.

use std::arch::x86_64::*;

use super::activations::Activations;
use super::blocks::Codes;
use super::panel::{HALF, Line, PANEL, Panel, Scales};

/// Codes of half a line, 8 rows of a panel, in the low and high group of `line`.
#[inline]
#[target_feature(enable = "avx2")]
fn codes<F: Codes>(lines: &[Line], line: usize, half: usize) -> [__m256i; 2] {
    let load = |line: usize| {
        let bytes = &lines[line].0[half * 32..half * 32 + 32];
        // SAFETY: the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    };
    if F::LINES > HALF {
        return [load(line), load(line + HALF)];
    }
    let (both, mask) = (load(line), _mm256_set1_epi8(15));
    [_mm256_and_si256(both, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask)]
}

/// Adds to the sums of R rows those of a block, with the integers `dots`, for 8 rows of the panel.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add<const R: usize>(
    sums: &mut [[__m256; 2]; R],
    half: usize,
    dots: [__m256i; R],
    scales: &Scales,
    x: [&Activations; R],
) {
    let scales = &scales[half * 8..half * 8 + 8];
    // SAFETY: the slice has 8 scales of 2 bytes.
    let scales = _mm256_cvtph_ps(unsafe { _mm_loadu_si128(scales.as_ptr().cast()) });
    for row in 0..R {
        let scale = _mm256_mul_ps(scales, _mm256_set1_ps(x[row].scale));
        sums[row][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[row]), scale, sums[row][half]);
    }
}

/// The lanes of sums.
#[inline]
#[target_feature(enable = "avx2")]
fn stored<const R: usize>(sums: [[__m256; 2]; R]) -> [[f32; PANEL]; R] {
    let mut stored = [[0f32; PANEL]; R];
    for (stored, sums) in stored.iter_mut().zip(sums) {
        for (stored, sum) in stored.chunks_exact_mut(8).zip(sums) {
            // SAFETY: the slice has 8 floats.
            unsafe { _mm256_storeu_ps(stored.as_mut_ptr(), sum) }
        }
    }
    stored
}

/// As [`portable::sums`](super::portable::sums).
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sums<F: Codes, const R: usize>(panel: Panel<'_>, rows: [&[Activations]; R]) -> [[f32; PANEL]; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    let ones = _mm256_set1_epi16(1);
    for (index, (lines, scales)) in panel.blocks::<F>().enumerate() {
        let x = rows.map(|row| &row[index]);
        for half in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for line in 0..HALF {
                let [low, high] = codes::<F>(lines, line, half);
                for (group, codes) in [(line, low), (line + HALF, high)] {
                    if F::LINES > HALF {
                        // Products of unsigned codes would leave 16 bits: the weight's sign moves to the activation.
                        let codes = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
                        let magnitudes = _mm256_abs_epi8(codes);
                        for row in 0..R {
                            let x = _mm256_sign_epi8(_mm256_set1_epi32(x[row].words[group]), codes);
                            let pairs = _mm256_maddubs_epi16(magnitudes, x);
                            dots[row] = _mm256_add_epi32(dots[row], _mm256_madd_epi16(pairs, ones));
                        }
                    } else {
                        // 8 pairs of 15 · 127 each are within 16 bits.
                        for row in 0..R {
                            let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi32(x[row].words[group]));
                            dots[row] = _mm256_add_epi16(dots[row], pairs);
                        }
                    }
                }
            }
            if F::LINES == HALF {
                for row in 0..R {
                    let offset = _mm256_set1_epi32(F::OFFSET * x[row].sum);
                    dots[row] = _mm256_sub_epi32(_mm256_madd_epi16(dots[row], ones), offset);
                }
            }
            add(&mut sums, half, dots, scales, x);
        }
    }
    stored(sums)
}

/// As [`sums`], on a processor with AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) fn sums_vnni<F: Codes, const R: usize>(panel: Panel<'_>, rows: [&[Activations]; R]) -> [[f32; PANEL]; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (index, (lines, scales)) in panel.blocks::<F>().enumerate() {
        let x = rows.map(|row| &row[index]);
        for half in 0..2 {
            let mut dots = x.map(|x| _mm256_set1_epi32(-F::OFFSET * x.sum));
            for line in 0..HALF {
                let [low, high] = codes::<F>(lines, line, half);
                for (group, codes) in [(line, low), (line + HALF, high)] {
                    for row in 0..R {
                        dots[row] = _mm256_dpbusd_avx_epi32(dots[row], codes, _mm256_set1_epi32(x[row].words[group]));
                    }
                }
            }
            add(&mut sums, half, dots, scales, x);
        }
    }
    stored(sums)
}
