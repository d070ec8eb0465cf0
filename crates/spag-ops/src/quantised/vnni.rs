//! AVX512-VNNI: multiplies a group of a block, four columns of 16 rows, by four activations in one instruction.

use std::arch::x86_64::*;

use super::activations::{SCALE, START, TERM, Tile};
use super::format::Format;
use super::panel::{GROUPS, LOW, Line, PANEL, Panel};
use super::scales::{Factors, Halves, Scales};

/// Codes of a group of a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn codes<F: Format>(lines: &[Line], group: usize) -> __m512i {
    // SAFETY: a line has 64 bytes.
    let load = |line: usize| unsafe { _mm512_load_si512(lines[line].0.as_ptr().cast()) };
    if F::BITS == 8 {
        return load(group);
    }
    let byte = |value: i8| _mm512_set1_epi8(value);
    let right = |line, count: usize| _mm512_srl_epi16(line, _mm_cvtsi32_si128(count as i32));
    let low = _mm512_and_si512(right(load(group % LOW), 4 * (group / LOW)), byte(15));
    // Masks off the bits of a neighbouring byte, which a 16-bit shift brings in.
    let at_four = |line, count: usize| match count {
        0..4 => _mm512_sll_epi16(line, _mm_cvtsi32_si128(4 - count as i32)),
        _ => right(line, count - 4),
    };
    match F::BITS {
        5 => _mm512_or_si512(low, _mm512_and_si512(at_four(load(LOW), group), byte(16))),
        6 => {
            let high = at_four(load(LOW + group / 4), 2 * (group % 4));
            _mm512_or_si512(low, _mm512_and_si512(high, byte(48)))
        }
        _ => low,
    }
}

/// f16 scales converted to f32, times their factors.
#[inline]
#[target_feature(enable = "avx512f")]
fn numbers(halves: &Halves, factors: Option<&Factors>) -> __m512 {
    // SAFETY: the arrays have 16 numbers of 2 bytes and of 1 byte.
    unsafe {
        let halves = _mm512_cvtph_ps(_mm256_loadu_si256(halves.as_ptr().cast()));
        let Some(factors) = factors else { return halves };
        let factors = _mm512_cvtepi8_epi32(_mm_loadu_si128(factors.as_ptr().cast()));
        _mm512_mul_ps(halves, _mm512_cvtepi32_ps(factors))
    }
}

/// As [`portable::sums`](super::portable::sums).
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn sums<F: Format, const R: usize>(panel: Panel<'_, F>, tile: &[Tile<R>]) -> [[f32; PANEL]; R] {
    let mut sums = [_mm512_setzero_ps(); R];
    let number = |word: i32| _mm512_set1_ps(f32::from_bits(word as u32));
    for ((scales, lines), tile) in panel.spans().zip(tile.chunks_exact(F::SPAN)) {
        for ((block, lines), x) in lines.chunks_exact(F::BITS).enumerate().zip(tile) {
            for part in 0..F::PARTS {
                let mut dots = x[START + part].map(|start| _mm512_set1_epi32(start));
                let groups = part * GROUPS / F::PARTS..(part + 1) * GROUPS / F::PARTS;
                for (group, x) in groups.clone().zip(&x[groups]) {
                    let codes = codes::<F>(lines, group);
                    for row in 0..R {
                        dots[row] = _mm512_dpbusd_epi32(dots[row], codes, _mm512_set1_epi32(x[row]));
                    }
                }
                let scale = numbers(scales.scale(), scales.factor(block, part));
                for row in 0..R {
                    let scale = _mm512_mul_ps(scale, number(x[SCALE][row]));
                    sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[row]), scale, sums[row]);
                }
            }
            if let Some((halves, factors)) = scales.minimum(block) {
                let minimum = numbers(halves, factors);
                for row in 0..R {
                    sums[row] = _mm512_fmadd_ps(minimum, number(x[TERM][row]), sums[row]);
                }
            }
        }
    }
    let mut stored = [[0f32; PANEL]; R];
    for (stored, sum) in stored.iter_mut().zip(sums) {
        // SAFETY: the array has 16 floats.
        unsafe { _mm512_storeu_ps(stored.as_mut_ptr(), sum) }
    }
    stored
}
