//! Rotary position embedding in the half-split layout of LLaMA: element i of a head turns with element i + half.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};

/// Cosines and sines of every position and frequency.
#[derive(Clone, Debug)]
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// Which way to turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By the position's angle: the forward pass.
    Forward,
    /// Back by the position's angle: the gradient, since a rotation's transpose is its inverse.
    Backward,
}

impl RopeTable {
    /// Angles position / theta^(2i / head_dim) for `positions` positions, in f32 as the reference computes them.
    pub fn new(head_dim: usize, theta: f64, positions: usize) -> Self {
        let half = head_dim / 2;
        let inverse: Vec<f32> =
            (0..half).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / head_dim as f32)).collect();
        let angles = (0..positions).flat_map(|p| inverse.iter().map(move |f| p as f32 * f));
        let (sin, cos) = angles.map(|a| a.sin_cos()).unzip();
        Self { half, cos, sin }
    }

    /// Number of positions in the table.
    pub fn positions(&self) -> usize {
        self.cos.len().checked_div(self.half).unwrap_or(0)
    }
}

/// Rows a task works through.
const ROWS: usize = 32;

/// Turns every head of every row of `x` [N, H·head size] in place; row n is at `positions[n]`.
///
/// # Errors
/// Shapes that do not fit, a position outside the table, or a tensor that is not contiguous f32.
pub fn rotate(x: &Tensor, positions: &[u32], table: &RopeTable, direction: Direction) -> Result<()> {
    rotate_leading(x, x.dim(1)?, positions, table, direction)
}

/// As [`rotate`], for the heads in the first `columns` columns of `x` [N, W] alone: queries and keys that lie before
/// the values in one tensor.
///
/// # Errors
/// As [`rotate`].
pub fn rotate_leading(
    x: &Tensor,
    columns: usize,
    positions: &[u32],
    table: &RopeTable,
    direction: Direction,
) -> Result<()> {
    let (n, width) = x.dims2()?;
    let half = table.half;
    if positions.len() != n || half == 0 || columns > width || !columns.is_multiple_of(2 * half) {
        bail!("rope: x is [{n}, {width}], {columns} columns, {} positions, head size {}", positions.len(), 2 * half);
    }
    if let Some(p) = positions.iter().find(|p| **p as usize >= table.positions()) {
        bail!("rope: position {p} is outside the {} positions of the model", table.positions());
    }
    let sign = match direction {
        Direction::Forward => 1.0,
        Direction::Backward => -1.0,
    };
    cpu::update(x, |x| {
        x.par_chunks_mut(width.max(1) * ROWS).zip(positions.par_chunks(ROWS)).for_each(|(x, positions)| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for (row, p) in x.chunks_exact_mut(width).zip(positions) {
                        let at = *p as usize * half;
                        let (cos, sin) = (&table.cos[at..at + half], &table.sin[at..at + half]);
                        for head in row[..columns].chunks_exact_mut(2 * half) {
                            let (a, b) = head.split_at_mut(half);
                            for i in 0..half {
                                let (u, v, s) = (a[i], b[i], sin[i] * sign);
                                a[i] = u * cos[i] - v * s;
                                b[i] = v * cos[i] + u * s;
                            }
                        }
                    }
                },
            );
        });
        Ok(())
    })
}
