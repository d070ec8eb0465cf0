//! Prepacked right operands: the weights of generation.
//!
//! A panel holds 64 or 32 columns, step by step, so that the innermost loop reads consecutive cache lines for any number of
//! rows, from one (bound by memory) to hundreds (bound by arithmetic).

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::memory::{Memory, SharedMemory};
use super::{Element, Format, Left, Next, Order, Output, PARTS, Packs, Right, Rows, Start, Target, Values, chain_len};
use crate::cpu::SharedMut;

/// Prefetch distance in cache lines for few rows, to cover the latency of memory.
const AHEAD: usize = 96;
/// Smaller products run on the calling thread: waking another takes longer.
const SMALL: usize = 1 << 18;

/// Row tiles from which a product is bound by arithmetic.
const TALL: usize = 64;

/// A packed matrix [k, n].
pub(crate) struct Panels<F: Packs> {
    memory: Memory<F::Weight>,
    k: usize,
    n: usize,
}

/// A left operand whose element (i, k) is at `i * row + k * self.k`, for k that are multiples of [`Format::STEPS`]; the
/// elements in between follow contiguously.
#[derive(Clone, Copy)]
pub(super) struct Strided<'a, T> {
    pub(super) values: &'a [T],
    pub(super) row: usize,
    pub(super) k: usize,
}

/// A product of a packed matrix.
struct Product<'a, A> {
    a: Strided<'a, A>,
    c: SharedMut,
    start: Start<'a>,
}

impl<F: Packs> Panels<F> {
    /// Panels in the memory that they were written to.
    ///
    /// # Panics
    /// If it is shorter than the panels.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of_memory(n: usize, k: usize, memory: Memory<F::Weight>) -> Self {
        assert!(memory.len() >= n.next_multiple_of(F::COLUMNS) * k, "panels: the memory is too short");
        Self { memory, k, n }
    }

    /// The memory of the panels.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn into_memory(self) -> Memory<F::Weight> {
        self.memory
    }

    /// Packs the transpose of a row-major matrix `[n, k]`.
    ///
    /// # Panics
    /// If the slice is shorter than its extents.
    pub(crate) fn pack((n, k): (usize, usize), values: &[F::Weight]) -> Self {
        Self { memory: Memory::packed((n, k, F::COLUMNS), values, F::pack), k, n }
    }

    /// [`Panels::pack`] in the memory of the matrix, for [`Panels::of_packed`]. A panel replaces the rows that it is made
    /// of.
    ///
    /// # Panics
    /// If the slice is shorter than its extents, or the rows do not fill the last panel.
    pub(crate) fn pack_in_place(extents: (usize, usize), values: &mut [F::Weight]) {
        Memory::pack_in_place((extents.0, extents.1, F::COLUMNS), values, F::pack);
    }

    /// The panels made by [`Panels::pack_in_place`] of the matrix at `start`.
    ///
    /// # Panics
    /// If the values are fewer than its extents, or the rows do not fill the last panel.
    pub(crate) fn of_packed((n, k): (usize, usize), values: Arc<SharedMemory<F::Weight>>, start: usize) -> Self {
        Self { memory: Memory::shared((n, k), values, start), k, n }
    }

    /// Repacks another matrix of the same extents in the same memory, converting its numbers to the format.
    ///
    /// # Panics
    /// If the values are fewer than the extents.
    pub(crate) fn repack(&mut self, values: Values<'_>) {
        self.memory.repack((self.n, self.k, F::COLUMNS), values, F::pack);
    }

    /// Row `index` of the packed matrix: a column of the panels.
    ///
    /// # Panics
    /// If the row is out of range, or `row` has the wrong length.
    pub(crate) fn unpack_row(&self, index: usize, row: &mut [f32]) {
        assert!(index < self.n && row.len() == self.k, "panels: row out of range");
        let panel = self.at(index / F::COLUMNS, 0).at;
        for (step, value) in row.iter_mut().enumerate() {
            // SAFETY: `step` is below k, and the panel has `F::COLUMNS` elements per step.
            *value = unsafe { *panel.add(F::index(self.k, step, index % F::COLUMNS)) }.widen();
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

    /// A panel from a step on, which must be a multiple of `F::STEPS`.
    fn at(&self, panel: usize, step: usize) -> Right<F::Weight> {
        let offset = (panel * self.k + step) * F::COLUMNS;
        Right::new(self.memory.as_ptr().wrapping_add(offset), F::COLUMNS)
    }

    /// `c[m, n] = start + a[m, k]·self`.
    ///
    /// # Panics
    /// If a slice is shorter than its extents, or a row of `a` than [`Format::tile`] reads.
    pub(crate) fn product(&self, m: usize, a: Rows<'_, F::Activation>, c: &mut [f32], start: Start<'_>) {
        assert!(a.values.len() >= m * a.stride, "panels: a side is too short");
        assert!(a.stride >= self.k.next_multiple_of(F::STEPS), "panels: the rows are too short");
        // SAFETY: the rows were checked.
        unsafe { self.product_of(m, Strided { values: a.values, row: a.stride, k: 1 }, c, start) }
    }

    /// As [`Panels::product`].
    ///
    /// # Safety
    /// `a` must have m rows with the steps that [`Format::tile`] reads.
    pub(super) unsafe fn product_of(&self, m: usize, a: Strided<'_, F::Activation>, c: &mut [f32], start: Start<'_>) {
        let (k, n) = (self.k, self.n);
        assert!(!matches!(start, Start::Of(base) if base.len() < m * n), "panels: the base is too short");
        assert!(c.len() >= m * n, "panels: a side is too short");
        let (tiles, panels) = (m.div_ceil(F::ROWS), n.div_ceil(F::COLUMNS));
        let product = Product { a, c: SharedMut::new(c), start };
        // SAFETY: the extents were checked; parts are disjoint.
        let run = |rows, panels| unsafe { self.part(&product, rows, panels) };
        if (m + 4) * k * n < SMALL {
            return run(0..m, 0..panels);
        }
        let (down, across) = split::<F>((m, n), rayon::current_num_threads());
        (0..down * across).into_par_iter().with_max_len(1).for_each(|task| {
            let (i, j) = (task / across, task % across);
            run(
                tiles * i / down * F::ROWS..(tiles * (i + 1) / down * F::ROWS).min(m),
                panels * j / across..panels * (j + 1) / across,
            );
        });
    }

    /// # Safety
    /// The slices must have the extents, and nothing else may use the part's elements of `c`.
    unsafe fn part(&self, product: &Product<'_, F::Activation>, rows: Range<usize>, panels: Range<usize>) {
        let (k, n) = (self.k, self.n);
        let Product { a, c, start } = product;
        let depth = chain_len(k, F::DEPTH, F::CHAIN_STEPS);
        let blocks = k.div_ceil(depth).max(1);
        let block = |index: usize| match F::ORDER {
            Order::StepsOfPanel => (panels.start + index / blocks, index % blocks * depth),
            Order::PanelsOfSteps => (panels.start + index % panels.len(), index / panels.len() * depth),
        };
        let most = match F::ORDER {
            Order::StepsOfPanel => rows.len(),
            Order::PanelsOfSteps => F::BLOCK,
        };
        let mut format = F::begin();
        for first in rows.clone().step_by(most.max(1)) {
            let rows = first..rows.end.min(first + most);
            let tiles = rows.len().div_ceil(F::ROWS);
            // From this number on, the tiles share the prefetch of the next block; below it, the first one does it alone.
            let shares = F::COLUMNS / F::Weight::PER_LINE;
            let calls = (shares * F::ROWS / F::BLOCK).max(1);
            for index in 0..panels.len() * blocks {
                let (panel, step) = block(index);
                let steps = depth.min(k - step);
                let output = if step == 0 && *start == Start::Zero { Output::Overwrite } else { Output::Accumulate };
                let (next_panel, next_step) = block((index + 1).min(panels.len() * blocks - 1));
                let (right, after) = (self.at(panel, step), self.at(next_panel, next_step).at);
                for (call, row) in rows.clone().step_by(F::BLOCK).enumerate() {
                    let at = a.values.as_ptr().wrapping_add(row * a.row + step * a.k);
                    let left = Left { at, row: a.row, k: a.k };
                    let offset = row * n + panel * F::COLUMNS;
                    let mut target = Target::new(c.at(offset), n);
                    if let (0, Start::Of(base)) = (step, start) {
                        target.base = base.as_ptr().wrapping_add(offset);
                    }
                    let next = match call {
                        0 if tiles < shares => Next::Stream(right.at.wrapping_add(AHEAD * F::Weight::PER_LINE)),
                        _ if tiles >= shares && call < calls => {
                            Next::Spread(after.wrapping_add(call * steps * F::COLUMNS / calls))
                        }
                        _ => Next::Unknown,
                    };
                    let extents = (F::BLOCK.min(rows.end - row), steps, F::COLUMNS.min(n - panel * F::COLUMNS));
                    // SAFETY: the tile is inside the extents guaranteed by the caller.
                    unsafe { format.tile(extents, left, right.then(next), target, output) }
                }
            }
        }
    }
}

/// The (down, across) split of a product of m rows and n columns among threads.
fn split<F: Format>((m, n): (usize, usize), threads: usize) -> (usize, usize) {
    let (tiles, panels) = (m.div_ceil(F::ROWS), n.div_ceil(F::COLUMNS));
    let parts = PARTS * threads;
    match F::ORDER {
        // Across panels first, so that each panel is read from memory once. Products of many rows are bound by arithmetic and
        // are split by rows as well: a few panels do not divide evenly.
        Order::StepsOfPanel => {
            let across = parts.min(panels);
            let least = if tiles >= TALL { threads } else { 1 };
            (parts.div_ceil(across.max(1)).max(least).min(tiles), across)
        }
        // Minimizes memory traffic: each part reads its rows and its panels. Two operations take a hundredth of the time of
        // reading an element.
        Order::PanelsOfSteps => (1..=parts.min(tiles))
            .map(|down| (down, parts.div_ceil(down).min(panels.max(1))))
            .min_by_key(|(down, across)| {
                let largest = tiles.div_ceil(*down) * F::ROWS * panels.div_ceil(*across) * F::COLUMNS;
                (largest * down * across / 100 + m * across + n * down, *down)
            })
            .unwrap_or((1, 1)),
    }
}
