//! NEON kernels. The byte instructions available on every Arm processor are signed: sixteen products in 16 bits, added in
//! pairs.

use std::arch::aarch64::*;

use super::activations::{SCALE, START, TERM, Tile};
use super::format::Format;
use super::panel::{GROUPS, LOW, Line, PANEL, Panel};
use super::scales::Scales;

/// Rows of a panel whose sums fill a register.
const LANES: usize = 4;
/// Registers of the sums of a panel.
const QUARTERS: usize = PANEL / LANES;

/// Codes of a group of a block, for a quarter of the rows; 8-bit codes as signed numbers.
#[inline(always)]
fn codes<F: Format>(lines: &[Line], group: usize, quarter: usize) -> int8x16_t {
    let load = |line: usize| {
        let bytes = &lines[line].0[quarter * 16..quarter * 16 + 16];
        // SAFETY: the slice has 16 bytes.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    };
    // SAFETY: every 64-bit Arm processor has NEON.
    let codes = unsafe {
        // Shifts left, or right if the count is negative.
        let shift = |line, count: usize, to: usize| vshlq_u8(line, vdupq_n_s8(to as i8 - count as i8));
        let masked = |line, mask| vandq_u8(line, vdupq_n_u8(mask));
        let low = || masked(shift(load(group % LOW), 4 * (group / LOW), 0), 15);
        match F::BITS {
            8 => veorq_u8(load(group), vdupq_n_u8(128)),
            5 => vorrq_u8(low(), masked(shift(load(LOW), group, 4), 16)),
            6 => vorrq_u8(low(), masked(shift(load(LOW + group / 4), 2 * (group % 4), 4), 48)),
            _ => low(),
        }
    };
    // SAFETY: as above.
    unsafe { vreinterpretq_s8_u8(codes) }
}

/// One number per row of a quarter.
#[inline(always)]
fn of_rows(quarter: usize, number: impl Fn(usize) -> f32) -> float32x4_t {
    let numbers: [f32; LANES] = std::array::from_fn(|lane| number(quarter * LANES + lane));
    // SAFETY: four floats, and every 64-bit Arm processor has NEON.
    unsafe { vld1q_f32(numbers.as_ptr()) }
}

/// As [`portable::sums`](super::portable::sums).
#[target_feature(enable = "neon")]
pub(super) fn sums<F: Format, const R: usize>(panel: Panel<'_, F>, tile: &[Tile<R>]) -> [[f32; PANEL]; R] {
    let mut sums = [[vdupq_n_f32(0.0); QUARTERS]; R];
    let number = |word: i32| f32::from_bits(word as u32);
    // The starts are for unsigned codes.
    let start = |start: i32| vdupq_n_s32(if F::BITS == 8 { 0 } else { start });
    for ((scales, lines), tile) in panel.spans().zip(tile.chunks_exact(F::SPAN)) {
        for ((block, lines), x) in lines.chunks_exact(F::BITS).enumerate().zip(tile) {
            for quarter in 0..QUARTERS {
                for part in 0..F::PARTS {
                    let mut dots = x[START + part].map(start);
                    for group in part * GROUPS / F::PARTS..(part + 1) * GROUPS / F::PARTS {
                        let codes = codes::<F>(lines, group, quarter);
                        for row in 0..R {
                            let x = vreinterpretq_s8_s32(vdupq_n_s32(x[group][row]));
                            let low = vmull_s8(vget_low_s8(codes), vget_low_s8(x));
                            // At most 2·128·127.
                            let pairs = vpaddq_s16(low, vmull_high_s8(codes, x));
                            dots[row] = vpadalq_s16(dots[row], pairs);
                        }
                    }
                    let scale = of_rows(quarter, |row| scales.scale_of(row, block, part));
                    for row in 0..R {
                        let scale = vmulq_n_f32(scale, number(x[SCALE][row]));
                        sums[row][quarter] = vfmaq_f32(sums[row][quarter], vcvtq_f32_s32(dots[row]), scale);
                    }
                }
                if scales.minimum(block).is_some() {
                    let minimum = of_rows(quarter, |row| scales.minimum_of(row, block).unwrap_or(0.0));
                    for row in 0..R {
                        sums[row][quarter] = vfmaq_n_f32(sums[row][quarter], minimum, number(x[TERM][row]));
                    }
                }
            }
        }
    }
    let mut stored = [[0f32; PANEL]; R];
    for (stored, sums) in stored.iter_mut().zip(sums) {
        for (stored, sum) in stored.chunks_exact_mut(LANES).zip(sums) {
            // SAFETY: the slice has 4 floats.
            unsafe { vst1q_f32(stored.as_mut_ptr(), sum) }
        }
    }
    stored
}
