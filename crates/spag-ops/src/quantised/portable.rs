//! The portable kernel, which all others match bit by bit.

use super::activations::{SCALE, START, TERM, Tile};
use super::format::{BLOCK, Format};
use super::panel::{PANEL, Panel};
use super::scales::Scales;

/// Products of a panel's rows of weights with `R` rows of activations. For each part of a block in order, a fused multiply-add
/// adds the exact integer sum, converted to f32, times the product of both scales; then, per block, the minimum times the sum of
/// the activations.
pub(super) fn sums<F: Format, const R: usize>(panel: Panel<'_, F>, tile: &[Tile<R>]) -> [[f32; PANEL]; R] {
    let mut sums = [[0f32; PANEL]; R];
    let part = BLOCK / F::PARTS;
    for ((scales, lines), tile) in panel.spans().zip(tile.chunks_exact(F::SPAN)) {
        for ((block, lines), x) in lines.chunks_exact(F::BITS).enumerate().zip(tile) {
            for lane in 0..PANEL {
                let codes = Panel::<F>::codes(lines, lane);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let sum = &mut sums[lane];
                    let x_of = |column: usize| i32::from(x[column / 4][row].to_le_bytes()[column % 4] as i8);
                    let (scale, term) = (f32::from_bits(x[SCALE][row] as u32), f32::from_bits(x[TERM][row] as u32));
                    for at in 0..F::PARTS {
                        let products = (at * part..(at + 1) * part).map(|i| i32::from(codes[i]) * x_of(i));
                        let dot = products.sum::<i32>() + x[START + at][row];
                        *sum = (dot as f32).mul_add(scales.scale_of(lane, block, at) * scale, *sum);
                    }
                    if let Some(minimum) = scales.minimum_of(lane, block) {
                        *sum = minimum.mul_add(term, *sum);
                    }
                }
            }
        }
    }
    sums
}
