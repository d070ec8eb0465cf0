//! Prepacked right operands: the weights of generation.
//!
//! A panel holds 64 columns, step by step, so that the innermost loop reads consecutive cache lines, whether there is
//! one row (bound by memory) or hundreds (bound by arithmetic).

use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::Line;
use super::tile::{COLUMNS, ROWS, tile};
use super::{Element, Left, Next, Output, PARTS, Right, Start, Target};
use crate::ops::cpu::SharedMut;

/// Maximum steps of a sum between updates of the output. The blocks of a sum do not depend on the number of rows or
/// threads, so a row of the result depends only on its own values.
const DEPTH: usize = 128;
/// Prefetch distance in cache lines for few rows: the latency of memory.
const AHEAD: usize = 96;
/// Smaller products run on the calling thread: waking another takes longer.
const SMALL: usize = 1 << 18;

/// A packed matrix [k, n].
pub(crate) struct Panels<T> {
    memory: Memory<T>,
    k: usize,
    n: usize,
}

/// Where the panels are.
enum Memory<T> {
    /// In memory of their own; the last panel is padded.
    Own(Vec<Line>),
    /// Where the matrix was, from an element on, beside other matrices. Panels may begin in the middle of a cache line.
    Shared(Arc<Vec<T>>, usize),
}

impl<T: Element> Panels<T> {
    /// Packs the transpose of a row-major matrix `[n, k]`.
    ///
    /// # Panics
    /// If the slice is shorter than its extents.
    pub(crate) fn pack((n, k): (usize, usize), values: &[T]) -> Self {
        let values = &values[..n * k];
        let of_panel = k * COLUMNS / T::PER_LINE;
        let mut lines = vec![Line::ZERO; n.div_ceil(COLUMNS) * of_panel];
        if k > 0 {
            lines.par_chunks_mut(of_panel).zip(values.par_chunks(COLUMNS * k)).for_each(|(lines, rows)| {
                // SAFETY: any bits are elements, and the lines hold k steps of `COLUMNS` of them.
                let panel = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<T>(), k * COLUMNS) };
                T::pack(rows, k, panel);
            });
        }
        Self { memory: Memory::Own(lines), k, n }
    }

    /// Whether a matrix of `n` rows can be packed by [`Panels::pack_in_place`].
    pub(crate) fn fit_in_place(n: usize) -> bool {
        n.is_multiple_of(COLUMNS)
    }

    /// As [`Panels::pack`], in the memory of the matrix, for [`Panels::of_packed`]. A panel takes the place of the rows that
    /// it is made of.
    ///
    /// # Panics
    /// If the slice is shorter than its extents, or the rows do not fill the last panel.
    pub(crate) fn pack_in_place((n, k): (usize, usize), values: &mut [T]) {
        assert!(Self::fit_in_place(n), "panels: {n} rows do not fill the last panel");
        if k > 0 {
            values[..n * k].par_chunks_mut(COLUMNS * k).for_each_init(Vec::new, |rows, panel| {
                rows.clear();
                rows.extend_from_slice(panel);
                T::pack(rows, k, panel);
            });
        }
    }

    /// The panels that [`Panels::pack_in_place`] made of the matrix at `start`.
    ///
    /// # Panics
    /// If the values are fewer than its extents, or the rows do not fill the last panel.
    pub(crate) fn of_packed((n, k): (usize, usize), values: Arc<Vec<T>>, start: usize) -> Self {
        assert!(Self::fit_in_place(n) && values.len() >= start + n * k, "panels: the memory is too short");
        Self { memory: Memory::Shared(values, start), k, n }
    }

    /// Row `index` of the matrix that was packed: a column of the panels.
    ///
    /// # Panics
    /// If the matrix has no such row, or `row` is not as long as one.
    pub(crate) fn unpack_row(&self, index: usize, row: &mut [f32]) {
        assert!(index < self.n && row.len() == self.k, "panels: row out of range");
        let start = self.at(index / COLUMNS, 0).at.wrapping_add(index % COLUMNS);
        for (step, value) in row.iter_mut().enumerate() {
            // SAFETY: `step` is below k, and the panel has `COLUMNS` elements a step.
            *value = unsafe { *start.add(step * COLUMNS) }.widen();
        }
    }

    /// Rows of the matrix.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Columns of the matrix.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    fn at(&self, panel: usize, step: usize) -> Right<T> {
        let offset = (panel * self.k + step) * COLUMNS;
        let panels = match &self.memory {
            Memory::Own(lines) => lines.as_ptr().cast::<T>(),
            Memory::Shared(values, start) => values.as_ptr().wrapping_add(*start),
        };
        Right::new(panels.wrapping_add(offset), COLUMNS)
    }

    /// `c[m, n] = start + a[m, k]·self`.
    ///
    /// # Panics
    /// If a slice is shorter than its extents.
    pub(crate) fn product(&self, m: usize, a: &[f32], c: &mut [f32], start: Start<'_>) {
        let (k, n) = (self.k, self.n);
        assert!(!matches!(start, Start::Of(base) if base.len() < m * n), "panels: the base is too short");
        assert!(a.len() >= m * k && c.len() >= m * n, "panels: a side is too short");
        let (tiles, panels) = (m.div_ceil(ROWS), n.div_ceil(COLUMNS));
        let c = SharedMut::new(c);
        // SAFETY: the extents were checked; parts are disjoint.
        let run = |rows, panels| unsafe { self.part((m, a), rows, panels, c, start) };
        if (m + 4) * k * n < SMALL {
            return run(0..m, 0..panels);
        }
        // Split across panels first, so that each panel is read from memory once.
        let parts = PARTS * rayon::current_num_threads();
        let across = parts.min(panels);
        let down = parts.div_ceil(across.max(1)).min(tiles);
        (0..down * across).into_par_iter().with_max_len(1).for_each(|task| {
            let (i, j) = (task / across, task % across);
            run(
                tiles * i / down * ROWS..(tiles * (i + 1) / down * ROWS).min(m),
                panels * j / across..panels * (j + 1) / across,
            );
        });
    }

    /// # Safety
    /// The slices must have the extents, and nothing else may use the part's elements of `c`.
    unsafe fn part(
        &self,
        (m, a): (usize, &[f32]),
        rows: std::ops::Range<usize>,
        panels: std::ops::Range<usize>,
        c: SharedMut,
        start: Start<'_>,
    ) {
        let (k, n) = (self.k, self.n);
        debug_assert!(rows.end <= m);
        let depth = k.div_ceil(k.div_ceil(DEPTH).max(1));
        let tiles = rows.len().div_ceil(ROWS);
        // With at least this many row tiles, the prefetch of the next panel is spread over them; otherwise the first tile
        // prefetches for itself.
        let spread = COLUMNS / T::PER_LINE;
        for panel in panels.clone() {
            for step in (0..k.max(1)).step_by(depth.max(1)) {
                let steps = depth.min(k - step);
                let output = if step == 0 && start == Start::Zero { Output::Overwrite } else { Output::Accumulate };
                // The same panel's next steps, or the next panel.
                let after = if step + depth < k {
                    self.at(panel, step + depth).at
                } else {
                    self.at((panel + 1).min(panels.end - 1), 0).at
                };
                let right = self.at(panel, step);
                for (index, row) in rows.clone().step_by(ROWS).enumerate() {
                    let left = Left { at: a.as_ptr().wrapping_add(row * k + step), row: k, k: 1 };
                    let offset = row * n + panel * COLUMNS;
                    let mut target = Target::new(c.at(offset), n);
                    if let (0, Start::Of(base)) = (step, start) {
                        target.base = base.as_ptr().wrapping_add(offset);
                    }
                    let next = match index {
                        0 if tiles < spread => Next::Stream(right.at.wrapping_add(AHEAD * T::PER_LINE)),
                        // Each of the first tiles prefetches one of a step's cache lines.
                        _ if index < spread && tiles >= spread => {
                            Next::Spread(after.wrapping_add(index * steps * T::PER_LINE))
                        }
                        _ => Next::Unknown,
                    };
                    let extents = (ROWS.min(rows.end - row), steps, COLUMNS.min(n - panel * COLUMNS));
                    // SAFETY: the tile is inside the extents guaranteed by the caller.
                    unsafe { tile(extents, left, right.then(next), target, output) }
                }
            }
        }
    }
}
