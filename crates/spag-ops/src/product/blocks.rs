//! Blocks of the operands of a large product: packed in tile order, or read in place.
//!
//! Rows of a wide matrix are pages apart, so that tiles would miss the translation buffer, and power-of-two strides
//! would map them to few cache sets.

use std::marker::PhantomData;
use std::ops::Range;

use super::ROWS;
use super::buffer::{Buffer, LANES};
use super::instructions::InstructionSet;
use super::pack::STRIP;
use super::source::Source;
use super::{Left, Right, Side};

/// Rows of a right operand that are packed together.
const ROWS_AT_A_TIME: usize = 8;
/// Minimum row tiles for which packing a right operand pays off.
const REUSE: usize = 16;

/// An operand, row-major `[rows, columns]` or its transpose.
pub(super) struct Operand<'a, S: Source> {
    values: &'a [S::Stored],
    side: Side,
    extents: (usize, usize),
}

/// A block of a left operand: tiles of rows at equal distances.
#[derive(Clone, Copy)]
pub(super) struct LeftBlock {
    first: Left,
    tile: usize,
}

/// A block of a right operand: panels at equal distances.
#[derive(Clone, Copy)]
pub(super) struct RightBlock {
    first: Right,
    panel: usize,
}

/// Memory of this thread for one block of each packed operand.
pub(super) struct Packed<I> {
    buffer: Buffer,
    left: bool,
    right: bool,
    /// Floats of a block of the right operand, followed by that of the left one.
    split: usize,
    instructions: PhantomData<I>,
}

/// Floats of a packed strip: its steps, plus a cache line, so that strips are not mapped to the same cache sets.
fn strip(steps: usize) -> usize {
    steps * STRIP + LANES
}

impl<'a, S: Source> Operand<'a, S> {
    /// # Panics
    /// If the slice is shorter than its extents.
    pub(super) fn new((values, side): (&'a [S::Stored], Side), extents: (usize, usize)) -> Self {
        assert!(values.len() >= extents.0 * extents.1, "product: a side is too short");
        Self { values, side, extents }
    }

    fn is_large<I: InstructionSet>(&self) -> bool {
        self.extents.0 * self.extents.1 > I::IN_PLACE
    }

    /// A pointer to an element. Only for [`Source::IN_PLACE`], whose elements are f32.
    fn in_place(&self, offset: usize) -> *const f32 {
        self.values.as_ptr().wrapping_add(offset).cast()
    }
}

impl LeftBlock {
    /// Tile `index` from `step` on.
    pub(super) fn tile(&self, index: usize, step: usize) -> Left {
        Left { at: self.first.at.wrapping_add(index * self.tile + step * self.first.k), ..self.first }
    }
}

impl RightBlock {
    /// Panel `index` from `step` on.
    pub(super) fn panel(&self, index: usize, step: usize) -> Right {
        Right { at: self.first.at.wrapping_add(index * self.panel + step * self.first.k), ..self.first }
    }
}

impl<I: InstructionSet> Packed<I> {
    /// Memory for blocks of at most `steps`, for a part with `reuse` row tiles in total.
    pub(super) fn new<A: Source, B: Source>(
        (a, b): (&Operand<'_, A>, &Operand<'_, B>),
        steps: usize,
        reuse: usize,
    ) -> Self {
        let left = !A::IN_PLACE || (a.side == Side::Columns && a.is_large::<I>());
        let right = !B::IN_PLACE || b.side == Side::Columns || (b.is_large::<I>() && reuse >= REUSE);
        let split = if right { steps * I::BLOCK_PANELS * I::COLUMNS } else { 0 };
        let buffer = Buffer::new(split + if left { I::STRIP_TILES * strip(steps) } else { 0 });
        Self { buffer, left, right, split, instructions: PhantomData }
    }

    /// The block of `rows` and `steps` of a left operand.
    ///
    /// # Safety
    /// The processor must have the instruction set. The block must be inside the operand and at most as large as the
    /// memory's.
    pub(super) unsafe fn left<S: Source>(
        &mut self,
        a: &Operand<'_, S>,
        rows: &Range<usize>,
        steps: &Range<usize>,
    ) -> LeftBlock {
        let (m, k) = a.extents;
        let to = self.buffer.as_mut_ptr().wrapping_add(self.split);
        match a.side {
            Side::Rows => {
                let offset = rows.start * k + steps.start;
                if !self.left {
                    return LeftBlock { first: Left { at: a.in_place(offset), row: k, k: 1 }, tile: ROWS * k };
                }
                let (from, width) = (a.values.as_ptr().wrapping_add(offset), steps.len());
                // SAFETY: the block is inside the operand, and the memory has room for it after that of the right one.
                unsafe { I::pack_rows::<S>((rows.len(), width, width), from, k, to) };
                LeftBlock { first: Left { at: to, row: width, k: 1 }, tile: ROWS * width }
            }
            Side::Columns => {
                let offset = steps.start * m + rows.start;
                if !self.left {
                    return LeftBlock { first: Left { at: a.in_place(offset), row: 1, k: m }, tile: ROWS };
                }
                let from = a.values.as_ptr().wrapping_add(offset);
                // SAFETY: as above.
                unsafe { I::pack_strips::<S>((rows.len(), steps.len(), strip(steps.len())), from, m, to) };
                LeftBlock { first: Left { at: to, row: 1, k: STRIP }, tile: strip(steps.len()) }
            }
        }
    }

    /// The block of `steps` and `columns` of a right operand.
    ///
    /// # Safety
    /// As [`Self::left`].
    pub(super) unsafe fn right<S: Source>(
        &mut self,
        b: &Operand<'_, S>,
        steps: &Range<usize>,
        columns: &Range<usize>,
    ) -> RightBlock {
        let (k, n) = b.extents;
        if !self.right {
            return RightBlock { first: Right::new(b.in_place(steps.start * n + columns.start), n), panel: I::COLUMNS };
        }
        let (at, to, panel) = (b.values.as_ptr(), self.buffer.as_mut_ptr(), steps.len() * I::COLUMNS);
        // A few rows of all panels at a time: adjacent lines, and few pages.
        let chunk = if b.side == Side::Rows { ROWS_AT_A_TIME } else { steps.len().max(1) };
        for first in steps.clone().step_by(chunk) {
            let count = chunk.min(steps.end - first);
            for (index, column) in columns.clone().step_by(I::COLUMNS).enumerate() {
                let extents = (count, I::COLUMNS.min(columns.end - column), I::COLUMNS);
                let to = to.wrapping_add(index * panel + (first - steps.start) * I::COLUMNS);
                // SAFETY: as in `left`.
                unsafe {
                    match b.side {
                        Side::Rows => I::pack_rows::<S>(extents, at.wrapping_add(first * n + column), n, to),
                        Side::Columns => I::pack_columns::<S>(extents, at.wrapping_add(column * k + first), k, to),
                    }
                }
            }
        }
        RightBlock { first: Right::new(to, I::COLUMNS), panel }
    }
}
