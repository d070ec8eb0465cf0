//! AVX512-VNNI: a cache line of codes, four columns of 16 rows, times four activations, in one instruction.

use std::arch::x86_64::*;

use super::activations::Activations;
use super::blocks::Codes;
use super::panel::{HALF, Line, PANEL, Panel};

/// Codes of the low and high group of `line`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn codes<F: Codes>(lines: &[Line], line: usize) -> [__m512i; 2] {
    // SAFETY: a line has 64 bytes.
    let load = |line: usize| unsafe { _mm512_load_si512(lines[line].0.as_ptr().cast()) };
    if F::LINES > HALF {
        return [load(line), load(line + HALF)];
    }
    let (both, mask) = (load(line), _mm512_set1_epi8(15));
    [_mm512_and_si512(both, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(both), mask)]
}

/// As [`portable::sums`](super::portable::sums).
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn sums<F: Codes, const R: usize>(panel: Panel<'_>, rows: [&[Activations]; R]) -> [[f32; PANEL]; R] {
    let mut sums = [_mm512_setzero_ps(); R];
    for (index, (lines, scales)) in panel.blocks::<F>().enumerate() {
        let x = rows.map(|row| &row[index]);
        // Codes are unsigned, so their products exceed those of the weights by the offset times the sum of the activations.
        let mut dots = x.map(|x| _mm512_set1_epi32(-F::OFFSET * x.sum));
        for line in 0..HALF {
            let [low, high] = codes::<F>(lines, line);
            for (group, codes) in [(line, low), (line + HALF, high)] {
                for row in 0..R {
                    dots[row] = _mm512_dpbusd_epi32(dots[row], codes, _mm512_set1_epi32(x[row].words[group]));
                }
            }
        }
        // SAFETY: a block has 16 scales of 2 bytes.
        let scales = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) });
        for row in 0..R {
            let scale = _mm512_mul_ps(scales, _mm512_set1_ps(x[row].scale));
            sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[row]), scale, sums[row]);
        }
    }
    let mut stored = [[0f32; PANEL]; R];
    for (stored, sum) in stored.iter_mut().zip(sums) {
        // SAFETY: the array has 16 floats.
        unsafe { _mm512_storeu_ps(stored.as_mut_ptr(), sum) }
    }
    stored
}
