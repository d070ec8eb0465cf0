//! Attention products with AMX tiles: as pairs, whose steps fill the rows of tiles.

use half::bf16;

use super::Heads;
use super::products::{InBf16, Products};
use crate::product::{CpuPath, Format, Left, Output, Right, Target, Tiles, transpose};

/// bf16 with AMX. Head sizes must be multiples of the steps.
pub(super) struct InTiles(Tiles);

impl Products for InTiles {
    type Value = bf16;
    const ROWS: usize = Tiles::ROWS;
    const BLOCK: usize = 4 * Self::ROWS;
    const STEPS: usize = Tiles::STEPS;

    fn begin() -> Self {
        Self(Tiles::begin())
    }

    #[inline]
    unsafe fn tile(
        &mut self,
        (m, k, n): (usize, usize, usize),
        a: Left<bf16>,
        b: Right<bf16>,
        c: Target,
        output: Output,
    ) {
        for column in (0..n).step_by(Tiles::COLUMNS) {
            let extents = (m, k, Tiles::COLUMNS.min(n - column));
            let (b, c) = (Self::columns(b, column), c.columns(column));
            // SAFETY: guaranteed by the caller; `forward` and `backward` have selected the path.
            unsafe { self.0.tile(extents, a, b, c, output) }
        }
    }

    fn columns(b: Right<bf16>, column: usize) -> Right<bf16> {
        InBf16::columns(b, column)
    }

    unsafe fn columns_of(
        extents: (usize, usize),
        from: *const bf16,
        row: usize,
        to: *mut bf16,
        stride: usize,
    ) -> Right<bf16> {
        // SAFETY: guaranteed by the caller.
        unsafe { InBf16::columns_of(extents, from, row, to, stride) }
    }

    unsafe fn steps_of((rows, width): (usize, usize), from: *const bf16, row: usize, to: *mut bf16) -> Right<bf16> {
        let (pairs, steps) = (rows.next_multiple_of(2), rows.next_multiple_of(Self::STEPS));
        // SAFETY: guaranteed by the caller. Padded with zeros, since zero times a non-finite number is not zero.
        unsafe {
            to.add(pairs * width).write_bytes(0, (steps - pairs) * width);
            InBf16::steps_of((rows, width), from, row, to)
        }
    }

    unsafe fn query_steps(extents: (usize, usize), from: *const bf16, row: usize, to: *mut bf16) -> Right<bf16> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::steps_of(extents, from, row, to) }
    }

    unsafe fn rows_of(extents: (usize, usize), from: *const f32, row: usize, to: *mut bf16) -> Left<bf16> {
        // SAFETY: guaranteed by the caller.
        unsafe { InBf16::rows_of(extents, from, row, to) }
    }

    unsafe fn stack((rows, width): (usize, usize), scores: *mut f32, row: usize) {
        // SAFETY: guaranteed by the caller: the rows of a tile belong to it. Unused rows are read as zeros.
        unsafe {
            InBf16::stack((rows, width), scores, row);
            for pair in (rows.next_multiple_of(2)..rows.next_multiple_of(Self::STEPS)).step_by(2) {
                scores.add(pair * row).write_bytes(0, width);
            }
        }
    }

    unsafe fn transposed(
        (columns, steps): (usize, usize),
        scores: *const f32,
        row: usize,
        to: *mut bf16,
    ) -> Left<bf16> {
        // SAFETY: guaranteed by the caller. A pair moves as one 32-bit number, and every second row holds pairs.
        unsafe { transpose((steps / 2, columns), scores, 2 * row, to.cast(), steps / 2) }
        Left { at: to, row: steps, k: 1 }
    }
}

/// Whether bf16 tensors are multiplied with AMX tiles.
pub(super) fn is_tiled(heads: Heads) -> bool {
    heads.dim.is_multiple_of(InTiles::STEPS) && CpuPath::current() == CpuPath::Amx
}
