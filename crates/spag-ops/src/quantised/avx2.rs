//! AVX2 kernels, and AVX-VNNI, which multiplies four pairs of bytes in one instruction.

use std::arch::x86_64::*;

use super::activations::{SCALE, START, TERM, Tile};
use super::format::Format;
use super::panel::{GROUPS, LOW, Line, PANEL, Panel};
use super::scales::{Factors, Halves, Scales};

/// Rows of half a panel, which fill a register.
const HALF: usize = PANEL / 2;

/// Codes of a group of a block, for half the rows.
#[inline]
#[target_feature(enable = "avx2")]
fn codes<F: Format>(lines: &[Line], group: usize, half: usize) -> __m256i {
    let load = |line: usize| {
        let bytes = &lines[line].0[half * 32..half * 32 + 32];
        // SAFETY: the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    };
    if F::BITS == 8 {
        return load(group);
    }
    let byte = |value: i8| _mm256_set1_epi8(value);
    let right = |line, count: usize| _mm256_srl_epi16(line, _mm_cvtsi32_si128(count as i32));
    let low = _mm256_and_si256(right(load(group % LOW), 4 * (group / LOW)), byte(15));
    // Masks off the bits of a neighbouring byte, which a 16-bit shift brings in.
    let at_four = |line, count: usize| match count {
        0..4 => _mm256_sll_epi16(line, _mm_cvtsi32_si128(4 - count as i32)),
        _ => right(line, count - 4),
    };
    match F::BITS {
        5 => _mm256_or_si256(low, _mm256_and_si256(at_four(load(LOW), group), byte(16))),
        6 => {
            let high = at_four(load(LOW + group / 4), 2 * (group % 4));
            _mm256_or_si256(low, _mm256_and_si256(high, byte(48)))
        }
        _ => low,
    }
}

/// f16 scales converted to f32, times their factors, for half the rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn numbers(halves: &Halves, factors: Option<&Factors>, half: usize) -> __m256 {
    let range = half * HALF..(half + 1) * HALF;
    // SAFETY: the slices have 8 numbers of 2 bytes and of 1 byte.
    unsafe {
        let halves = _mm256_cvtph_ps(_mm_loadu_si128(halves[range.clone()].as_ptr().cast()));
        let Some(factors) = factors else { return halves };
        let factors = _mm256_cvtepi8_epi32(_mm_loadl_epi64(factors[range].as_ptr().cast()));
        _mm256_mul_ps(halves, _mm256_cvtepi32_ps(factors))
    }
}

/// Adds the sums of products of a block's groups to `dots`, which are initialised with the starts.
#[inline]
#[target_feature(enable = "avx2")]
fn add_dots<F: Format, const R: usize>(
    dots: &mut [__m256i; R],
    lines: &[Line],
    half: usize,
    x: &Tile<R>,
    groups: std::ops::Range<usize>,
) {
    let ones = _mm256_set1_epi16(1);
    if F::BITS == 8 {
        for (group, x) in groups.clone().zip(&x[groups]) {
            // Products of unsigned codes would overflow 16 bits: the weight's sign moves to the activation, without the starts,
            // which are for unsigned codes.
            let codes = _mm256_xor_si256(codes::<F>(lines, group, half), _mm256_set1_epi8(-128));
            let magnitudes = _mm256_abs_epi8(codes);
            for row in 0..R {
                let x = _mm256_sign_epi8(_mm256_set1_epi32(x[row]), codes);
                let pairs = _mm256_maddubs_epi16(magnitudes, x);
                dots[row] = _mm256_add_epi32(dots[row], _mm256_madd_epi16(pairs, ones));
            }
        }
        return;
    }
    // Groups whose pairs fit into 16 bits together: 2·127·(2^bits - 1) each.
    let together = match F::BITS {
        4 => 8,
        5 => 4,
        _ => 2,
    };
    let mut first = groups.start;
    while first < groups.end {
        let mut pairs = [_mm256_setzero_si256(); R];
        let last = groups.end.min(first + together);
        for (group, x) in (first..last).zip(&x[first..last]) {
            let codes = codes::<F>(lines, group, half);
            for row in 0..R {
                let product = _mm256_maddubs_epi16(codes, _mm256_set1_epi32(x[row]));
                pairs[row] = _mm256_add_epi16(pairs[row], product);
            }
        }
        for row in 0..R {
            dots[row] = _mm256_add_epi32(dots[row], _mm256_madd_epi16(pairs[row], ones));
        }
        first += together;
    }
}

/// [`add_dots`] with AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn add_dots_vnni<F: Format, const R: usize>(
    dots: &mut [__m256i; R],
    lines: &[Line],
    half: usize,
    x: &Tile<R>,
    groups: std::ops::Range<usize>,
) {
    for (group, x) in groups.clone().zip(&x[groups]) {
        let codes = codes::<F>(lines, group, half);
        for row in 0..R {
            dots[row] = _mm256_dpbusd_avx_epi32(dots[row], codes, _mm256_set1_epi32(x[row]));
        }
    }
}

/// The sums of a panel, with one of the functions above for the integers.
macro_rules! sums {
    ($panel:expr, $tile:expr, $start:expr, $add:path) => {{
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        let number = |word: i32| _mm256_set1_ps(f32::from_bits(word as u32));
        for ((scales, lines), tile) in $panel.spans().zip($tile.chunks_exact(F::SPAN)) {
            for ((block, lines), x) in lines.chunks_exact(F::BITS).enumerate().zip(tile) {
                for half in 0..2 {
                    for part in 0..F::PARTS {
                        let mut dots = x[START + part].map($start);
                        $add(&mut dots, lines, half, x, part * GROUPS / F::PARTS..(part + 1) * GROUPS / F::PARTS);
                        let scale = numbers(scales.scale(), scales.factor(block, part), half);
                        for row in 0..R {
                            let scale = _mm256_mul_ps(scale, number(x[SCALE][row]));
                            sums[row][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[row]), scale, sums[row][half]);
                        }
                    }
                    if let Some((halves, factors)) = scales.minimum(block) {
                        let minimum = numbers(halves, factors, half);
                        for row in 0..R {
                            sums[row][half] = _mm256_fmadd_ps(minimum, number(x[TERM][row]), sums[row][half]);
                        }
                    }
                }
            }
        }
        let mut stored = [[0f32; PANEL]; R];
        for (stored, sums) in stored.iter_mut().zip(sums) {
            for (stored, sum) in stored.chunks_exact_mut(HALF).zip(sums) {
                // SAFETY: the slice has 8 floats.
                unsafe { _mm256_storeu_ps(stored.as_mut_ptr(), sum) }
            }
        }
        stored
    }};
}

/// As [`portable::sums`](super::portable::sums).
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sums<F: Format, const R: usize>(panel: Panel<'_, F>, tile: &[Tile<R>]) -> [[f32; PANEL]; R] {
    sums!(panel, tile, |start| _mm256_set1_epi32(if F::BITS == 8 { 0 } else { start }), add_dots::<F, R>)
}

/// [`sums`] with AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) fn sums_vnni<F: Format, const R: usize>(panel: Panel<'_, F>, tile: &[Tile<R>]) -> [[f32; PANEL]; R] {
    sums!(panel, tile, |start| _mm256_set1_epi32(start), add_dots_vnni::<F, R>)
}
