//! Quantised weights of linear layers: blocks of 4 to 8 bits in ggml's formats, multiplied as integers.
//!
//! Activations are quantised to 8 bits with f32 scales, per row and per block of the weights. The product of two blocks is an
//! exact integer sum; a row's block products are added in f32, in block order. All kernels are bit-identical, and a row's result
//! does not depend on the other rows.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod device;
mod format;
mod kernel;
mod matrix;
#[cfg(target_arch = "aarch64")]
mod neon;
mod panel;
mod portable;
mod quantise;
mod scales;
mod search;
mod span;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::ops::Range;

use rayon::prelude::*;

use super::cpu::SharedMut;
use super::product::{CpuPath, Start};
use activations::Activations;
use format::{Format, with_format};
use kernel::Kernel;
use panel::PANEL;

pub(crate) use device::DeviceMatrix;
pub use format::BlockFormat;
pub(crate) use matrix::QuantisedMatrix;

/// Products with fewer multiplications run on the calling thread.
const SMALL: usize = 1 << 18;
/// Tasks per thread, for load balance.
const PARTS: usize = 4;
/// Minimum rows of a task, if tasks divide the rows.
const TALL: usize = 32;
/// Bytes of activations that stay in a core's cache across panels.
const RESIDENT: usize = 1 << 19;

impl QuantisedMatrix {
    /// `c[m, n] = start + a[m, k]·selfᵀ`, with `a` quantised to 8 bits.
    ///
    /// # Panics
    /// If a slice is shorter than its extents.
    pub(crate) fn product(&self, m: usize, a: &[f32], c: &mut [f32], start: Start<'_>) {
        // SAFETY: the processor has the process's path.
        unsafe { self.product_by(Kernel::of(CpuPath::current()), m, a, c, start) }
    }

    /// [`QuantisedMatrix::product`] with a given kernel.
    ///
    /// # Safety
    /// The processor must support the kernel.
    ///
    /// # Panics
    /// If a slice is shorter than its extents.
    unsafe fn product_by(&self, kernel: Kernel, m: usize, a: &[f32], c: &mut [f32], start: Start<'_>) {
        let (n, k) = (self.n(), self.k());
        assert!(!matches!(start, Start::Of(base) if base.len() < m * n), "quantised: the base is too short");
        assert!(a.len() >= m * k && c.len() >= m * n, "quantised: a side is too short");
        with_format!(self.format(), F => {
            let x = Activations::quantise::<F>(&a[..m * k], k, kernel.most_rows());
            // SAFETY: guaranteed by the caller, and checked above.
            unsafe { self.product_of::<F>(kernel, &x, SharedMut::new(c), start) }
        })
    }

    /// Tasks divide the panels first, so that each is read from memory by one task, for all rows.
    ///
    /// # Safety
    /// The processor must support the kernel. `c` and the base of `start` have n elements per row of `x`.
    unsafe fn product_of<F: Format>(&self, kernel: Kernel, x: &Activations, c: SharedMut, start: Start<'_>) {
        let (m, panels) = (x.rows(), self.n().div_ceil(PANEL));
        // SAFETY: guaranteed by the caller; parts are disjoint.
        let part = |rows, panels| unsafe { self.part::<F>(kernel, (x, rows), panels, (c, start)) };
        if m * self.k() * self.n() < SMALL {
            return part(0..m, 0..panels);
        }
        let threads = rayon::current_num_threads();
        let across = panels.min(PARTS * threads);
        let down = if across < threads { (m / TALL).clamp(1, threads) } else { 1 };
        // The start of the tile of a row.
        let bound = |i: usize| if i == down { m } else { x.tile_of(m * i / down).0 };
        (0..down * across).into_par_iter().with_max_len(1).for_each(|task| {
            let (i, j) = (task / across, task % across);
            part(bound(i)..bound(i + 1), panels * j / across..panels * (j + 1) / across);
        });
    }

    /// # Safety
    /// As [`QuantisedMatrix::product_of`]. Nothing else may use the part's elements of `c`, and the range must start and end at
    /// tile boundaries.
    unsafe fn part<F: Format>(
        &self,
        kernel: Kernel,
        (x, rows): (&Activations, Range<usize>),
        panels: Range<usize>,
        (c, start): (SharedMut, Start<'_>),
    ) {
        let n = self.n();
        let resident = RESIDENT / x.row_bytes().max(1);
        let mut first = rows.start;
        while first < rows.end {
            let group = first;
            for index in panels.clone() {
                let columns = index * PANEL..n.min((index + 1) * PANEL);
                let write = |row: usize, sums: &[f32; PANEL]| {
                    let at = row * n + columns.start;
                    // SAFETY: the row and the columns are inside `c`, and belong to this part alone.
                    let c = unsafe { std::slice::from_raw_parts_mut(c.at(at), columns.len()) };
                    start.put(sums, at, c);
                };
                let panel = self.panel::<F>(index);
                first = group;
                while first < rows.end && (first == group || first < group + resident) {
                    let (_, size) = x.tile_of(first);
                    // SAFETY: guaranteed by the caller.
                    unsafe { kernel.products::<F>(panel, x, (first, size), write) }
                    first += size;
                }
            }
            if panels.is_empty() {
                return;
            }
        }
    }
}
