//! Rotary position embedding in the half-split layout of LLaMA: element i of a head turns with element i + half.

mod device;

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};
use crate::kernels::{self, Kernels};

/// Cosines and sines of every position and frequency.
#[derive(Clone, Debug)]
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
    /// Cosines and sines on the devices that have asked for them; clones share them.
    copies: Arc<Mutex<Vec<(Tensor, Tensor)>>>,
}

/// The position of each row of a batch: checked once, and once copied to the device that reads it.
#[derive(Clone, Debug)]
pub struct Positions {
    values: Vec<u32>,
    /// One more than the largest.
    end: usize,
    /// Where kernels turn the rows.
    copy: Option<Tensor>,
}

impl Positions {
    /// Positions of rows on `device` that are turned by `table`.
    ///
    /// # Errors
    /// A position outside the table, or no memory.
    pub fn new(positions: &[u32], table: &RopeTable, device: &Device) -> Result<Self> {
        let end = positions.iter().max().map_or(0, |p| *p as usize + 1);
        table.check(end)?;
        let copy = match kernels::of(device)? {
            Some(_) if !positions.is_empty() => Some(Tensor::new(positions, device)?),
            _ => None,
        };
        Ok(Self { values: positions.to_vec(), end, copy })
    }

    /// The copy on the device that turns the rows, if it is not the CPU.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        self.copy.as_ref()
    }

    /// As many positions, no larger than these, that are still to be written to the device.
    pub(crate) fn uninit_like(&self, kernels: &dyn Kernels) -> Result<Self> {
        let copy = self.copy.as_ref().map(|copy| kernels.empty(copy.dims(), copy.dtype())).transpose()?;
        Ok(Self { copy, ..self.clone() })
    }

    /// The copy on `device`.
    fn on(&self, device: &Device) -> Result<Tensor> {
        match &self.copy {
            Some(copy) if copy.device().same_device(device) => Ok(copy.clone()),
            _ => Tensor::new(self.values.as_slice(), device),
        }
    }
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
        Self { half, cos, sin, copies: Arc::default() }
    }

    /// Number of positions in the table.
    pub fn positions(&self) -> usize {
        self.cos.len().checked_div(self.half).unwrap_or(0)
    }

    /// Whether the positions before `end` are all in the table.
    fn check(&self, end: usize) -> Result<()> {
        match end > self.positions() {
            true => bail!("rope: position {} is outside the {} positions of the model", end - 1, self.positions()),
            false => Ok(()),
        }
    }

    /// Cosines and sines on `device`, copied there the first time.
    fn on(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.iter().find(|(cos, _)| cos.device().same_device(device)) {
            return Ok(copy.clone());
        }
        let copy = (Tensor::new(self.cos.as_slice(), device)?, Tensor::new(self.sin.as_slice(), device)?);
        copies.push(copy.clone());
        Ok(copy)
    }
}

/// Rows a task works through.
const ROWS: usize = 32;

/// Turns every head of every row of `x` [N, H·head size] in place; row n is at the nth position.
///
/// # Errors
/// Shapes that do not fit, positions outside the table, or a tensor that is not contiguous f32 (or, for kernels, bf16).
pub fn rotate(x: &Tensor, positions: &Positions, table: &RopeTable, direction: Direction) -> Result<()> {
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
    positions: &Positions,
    table: &RopeTable,
    direction: Direction,
) -> Result<()> {
    let (n, width) = x.dims2()?;
    let half = table.half;
    let rows = &positions.values;
    if rows.len() != n || half == 0 || columns > width || !columns.is_multiple_of(2 * half) {
        bail!("rope: x is [{n}, {width}], {columns} columns, {} positions, head size {}", rows.len(), 2 * half);
    }
    table.check(positions.end)?;
    if let Some(kernels) = kernels::of(x.device())? {
        return device::rotate(&*kernels, x, columns, positions, table, direction);
    }
    let sign = match direction {
        Direction::Forward => 1.0,
        Direction::Backward => -1.0,
    };
    cpu::update(x, |x| {
        x.par_chunks_mut(width.max(1) * ROWS).zip(rows.par_chunks(ROWS)).for_each(|(x, positions)| {
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
