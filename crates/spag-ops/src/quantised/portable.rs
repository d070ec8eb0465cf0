//! The product that defines the bits of all others.

use half::f16;

use super::activations::Activations;
use super::blocks::{BLOCK, Codes};
use super::panel::{PANEL, Panel};

/// Products of a panel's rows of weights with `R` rows of activations. For each block in turn, the exact integer sum, as f32,
/// times the product of both scales is added by a fused multiply-add.
pub(super) fn sums<F: Codes, const R: usize>(panel: Panel<'_>, rows: [&[Activations]; R]) -> [[f32; PANEL]; R] {
    let mut sums = [[0f32; PANEL]; R];
    for (index, (lines, scales)) in panel.blocks::<F>().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let x = &row[index];
            for (lane, (sum, scale)) in sums.iter_mut().zip(scales).enumerate() {
                let products = (0..BLOCK).map(|i| i32::from(Panel::code::<F>(lines, lane, i)) * x.code(i));
                let dot = products.sum::<i32>() - F::OFFSET * x.sum;
                *sum = (dot as f32).mul_add(f16::from_bits(*scale).to_f32() * x.scale, *sum);
            }
        }
    }
    sums
}
