//! Quantised weights of linear layers: blocks of 8 or 4 bits, multiplied as integers.
//!
//! Activations are quantised to 8 bits, per row and block of 32, with scales in f32. The product of two blocks is an exact sum
//! of integers; the products of a row's blocks are added in f32, in the order of the blocks. All kernels have the same bits, and
//! a row's result does not depend on the other rows.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod blocks;
mod kernel;
mod panel;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::ops::Range;

use candle_core::{Result, bail};
use half::f16;
use rayon::prelude::*;

use super::cpu::SharedMut;
use super::product::{CpuPath, Element, Start, Values};
use activations::Activations;
use blocks::{BLOCK, Codes, Q4, Q8};
use kernel::Kernel;
use panel::{Line, PANEL, Panel, Scales};

pub use blocks::BlockFormat;

/// Products of fewer multiplications are computed on the calling thread.
const SMALL: usize = 1 << 18;
/// Tasks per thread, so that a late thread has less to do.
const PARTS: usize = 4;
/// Fewest rows of a task, if tasks divide the rows.
const TALL: usize = 32;

/// A quantised matrix [n, k] for products on a CPU.
pub(crate) struct QuantisedMatrix {
    format: BlockFormat,
    n: usize,
    k: usize,
    /// The lines of all blocks of the first panel, then those of the next. The last panel is padded with rows of zeros.
    lines: Vec<Line>,
    /// The scales of the same blocks.
    scales: Vec<Scales>,
}

impl QuantisedMatrix {
    /// Quantises row-major weights [n, k].
    ///
    /// # Errors
    /// A k that is no multiple of 32, fewer weights than n·k, or a weight that is not finite or too large for a scale in f16.
    pub(crate) fn new(format: BlockFormat, (n, k): (usize, usize), weights: Values<'_>) -> Result<Self> {
        if !format.divides(k) {
            bail!("{format}: the input size {k} is no multiple of {BLOCK}");
        }
        if weights.len() < n * k {
            bail!("{format}: {} weights for [{n}, {k}]", weights.len());
        }
        match format {
            BlockFormat::Q8_0 => Self::pack::<Q8>(format, (n, k), weights),
            BlockFormat::Q4_0 => Self::pack::<Q4>(format, (n, k), weights),
        }
    }

    fn pack<F: Codes>(format: BlockFormat, (n, k): (usize, usize), weights: Values<'_>) -> Result<Self> {
        let blocks = k / BLOCK;
        let count = n.div_ceil(PANEL) * blocks;
        let (mut lines, mut scales) = (vec![Line::ZERO; count * F::LINES], vec![[0; PANEL]; count]);
        let panels = lines.par_chunks_mut(blocks * F::LINES).zip(scales.par_chunks_mut(blocks));
        panels.enumerate().try_for_each(|(panel, (lines, scales))| {
            let first = panel * PANEL;
            for row in first..n.min(first + PANEL) {
                let blocks = lines.chunks_exact_mut(F::LINES).zip(scales.iter_mut());
                for (index, (lines, scales)) in blocks.enumerate() {
                    let at = row * k + index * BLOCK;
                    let weights = widened(weights.range(at..at + BLOCK));
                    let block = F::quantise(&weights);
                    if !block.scale.is_finite() || weights.iter().any(|weight| !weight.is_finite()) {
                        bail!("{format}: row {row} has a weight that is not finite or too large");
                    }
                    Panel::write::<F>(&block, row - first, lines, scales);
                }
            }
            Ok(())
        })?;
        Ok(Self { format, n, k, lines, scales })
    }

    /// Bytes of a matrix [n, k] in a format.
    pub(crate) fn bytes(format: BlockFormat, (n, k): (usize, usize)) -> u64 {
        let blocks = n.next_multiple_of(PANEL) as u64 * k.div_ceil(BLOCK) as u64;
        blocks.saturating_mul(format.block_bytes() as u64)
    }

    /// Input size.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Output size.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Writes row `index`, dequantised.
    ///
    /// # Panics
    /// If the matrix has no such row, or `row` is not as long as one.
    pub(crate) fn unpack_row(&self, index: usize, row: &mut [f32]) {
        assert!(index < self.n && row.len() == self.k, "quantised: row out of range");
        match self.format {
            BlockFormat::Q8_0 => self.unpack::<Q8>(index, row),
            BlockFormat::Q4_0 => self.unpack::<Q4>(index, row),
        }
    }

    fn unpack<F: Codes>(&self, index: usize, row: &mut [f32]) {
        let lane = index % PANEL;
        for (values, (lines, scales)) in row.chunks_exact_mut(BLOCK).zip(self.panel::<F>(index / PANEL).blocks::<F>()) {
            let scale = f16::from_bits(scales[lane]).to_f32();
            for (column, value) in values.iter_mut().enumerate() {
                *value = scale * (i32::from(Panel::code::<F>(lines, lane, column)) - F::OFFSET) as f32;
            }
        }
    }

    fn panel<F: Codes>(&self, index: usize) -> Panel<'_> {
        let blocks = self.k / BLOCK;
        let range = index * blocks..(index + 1) * blocks;
        Panel { lines: &self.lines[range.start * F::LINES..range.end * F::LINES], scales: &self.scales[range] }
    }

    /// `c[m, n] = start + a[m, k]·selfᵀ`, with `a` quantised to 8 bits.
    ///
    /// # Panics
    /// If a slice is shorter than its extents.
    pub(crate) fn product(&self, m: usize, a: &[f32], c: &mut [f32], start: Start<'_>) {
        // SAFETY: the processor has the process's path.
        unsafe { self.product_by(Kernel::of(CpuPath::current()), m, a, c, start) }
    }

    /// As [`QuantisedMatrix::product`], by a kernel.
    ///
    /// # Safety
    /// The processor has the kernel.
    ///
    /// # Panics
    /// If a slice is shorter than its extents.
    unsafe fn product_by(&self, kernel: Kernel, m: usize, a: &[f32], c: &mut [f32], start: Start<'_>) {
        assert!(!matches!(start, Start::Of(base) if base.len() < m * self.n), "quantised: the base is too short");
        assert!(a.len() >= m * self.k && c.len() >= m * self.n, "quantised: a side is too short");
        let x = activations::quantise(&a[..m * self.k]);
        // SAFETY: guaranteed by the caller, and checked above.
        unsafe {
            match self.format {
                BlockFormat::Q8_0 => self.product_of::<Q8>(kernel, &x, SharedMut::new(c), start),
                BlockFormat::Q4_0 => self.product_of::<Q4>(kernel, &x, SharedMut::new(c), start),
            }
        }
    }

    /// Tasks divide the panels first, so that each is read from memory by one task, for all rows.
    ///
    /// # Safety
    /// The processor has the kernel. `c` has n elements for each row of `x`, and so has the base of `start`.
    unsafe fn product_of<F: Codes>(&self, kernel: Kernel, x: &[Activations], c: SharedMut, start: Start<'_>) {
        let (m, panels) = (x.len() / (self.k / BLOCK), self.n.div_ceil(PANEL));
        // SAFETY: guaranteed by the caller; parts are disjoint.
        let part = |rows, panels| unsafe { self.part::<F>(kernel, (x, rows), panels, (c, start)) };
        if m * self.k * self.n < SMALL {
            return part(0..m, 0..panels);
        }
        let threads = rayon::current_num_threads();
        let across = panels.min(PARTS * threads);
        let down = if across < threads { (m / TALL).clamp(1, threads) } else { 1 };
        (0..down * across).into_par_iter().with_max_len(1).for_each(|task| {
            let (i, j) = (task / across, task % across);
            part(m * i / down..m * (i + 1) / down, panels * j / across..panels * (j + 1) / across);
        });
    }

    /// # Safety
    /// As [`QuantisedMatrix::product_of`], and nothing else may use the part's elements of `c`.
    unsafe fn part<F: Codes>(
        &self,
        kernel: Kernel,
        (x, rows): (&[Activations], Range<usize>),
        panels: Range<usize>,
        (c, start): (SharedMut, Start<'_>),
    ) {
        let blocks = self.k / BLOCK;
        let x = &x[rows.start * blocks..rows.end * blocks];
        for index in panels {
            let columns = index * PANEL..self.n.min((index + 1) * PANEL);
            let write = |row: usize, sums: &[f32; PANEL]| {
                let at = (rows.start + row) * self.n + columns.start;
                // SAFETY: the row and the columns are inside `c`, and of this part alone.
                let c = unsafe { std::slice::from_raw_parts_mut(c.at(at), columns.len()) };
                match start {
                    Start::Zero => c.copy_from_slice(&sums[..c.len()]),
                    Start::Output => c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum),
                    Start::Of(base) => {
                        c.iter_mut().zip(&base[at..]).zip(sums).for_each(|((c, base), sum)| *c = base + sum);
                    }
                }
            };
            // SAFETY: guaranteed by the caller.
            unsafe { kernel.products::<F>(self.panel::<F>(index), x, write) }
        }
    }
}

/// A block of weights in f32.
fn widened(weights: Values<'_>) -> [f32; BLOCK] {
    let mut block = [0f32; BLOCK];
    match weights {
        Values::F32(weights) => block.iter_mut().zip(weights).for_each(|(to, from)| *to = *from),
        Values::Bf16(weights) => block.iter_mut().zip(weights).for_each(|(to, from)| *to = from.widen()),
    }
    block
}
