//! Products with AMX-BF16 tiles.
//!
//! An element of the result is a chain over blocks of 32 steps, starting from its addend. `TDPBF16PS` sums the products of a
//! block's even elements and of its odd ones, adds both sums, and adds that to the element; all with fused multiply-adds
//! rounded to nearest even, and denormals treated as zero. This does not depend on the number of rows of a tile, so rows are
//! independent of each other.
//!
//! Four tile products take 64 cycles, in which the second-level cache delivers less than their four operands. So half a
//! panel stays in the first-level cache across rows, and the rows stay in the second-level cache across panels.

mod blocks;
mod detect;
mod registers;

use half::bf16;

use blocks::{Blocks, Lines, Prefetch};
pub(super) use detect::is_available;
use registers::{Config, Shape};

use super::buffer::LANES;
use super::{Format, Left, Next, Order, Output, Right, Target, pairs};

/// Steps of a tile: 64 bytes of bf16.
const STEPS: usize = 32;
/// Rows of a tile.
const TILE_ROWS: usize = 16;
/// Rows of two tiles, stacked vertically.
const ROWS: usize = 2 * TILE_ROWS;
/// Columns of two tiles, side by side.
const COLUMNS: usize = 2 * LANES;

/// Panels of pairs, multiplied with AMX-BF16. A value holds the state of a thread.
pub(crate) struct Tiles {
    /// The configuration of the tile registers; `None` before first use.
    shape: Option<Shape>,
    edge: Edge,
}

/// A temporary output for results with fewer columns than two tiles.
#[repr(align(64))]
struct Edge([f32; ROWS * COLUMNS]);

impl Format for Tiles {
    type Weight = bf16;
    type Activation = bf16;

    const COLUMNS: usize = COLUMNS;
    const ROWS: usize = ROWS;
    const BLOCK: usize = 16 * ROWS;
    const DEPTH: usize = 1024;
    const STEPS: usize = STEPS;
    const ORDER: Order = Order::PanelsOfSteps;

    fn begin() -> Self {
        Self { shape: None, edge: Edge([0.0; ROWS * COLUMNS]) }
    }

    fn index(k: usize, step: usize, column: usize) -> usize {
        pairs::index::<COLUMNS>(k, step, column)
    }

    unsafe fn tile(
        &mut self,
        (m, k, n): (usize, usize, usize),
        a: Left<bf16>,
        b: Right<bf16>,
        c: Target,
        output: Output,
    ) {
        // SAFETY: guaranteed by the caller.
        let blocks = unsafe { Blocks::new(k, b) };
        let mut prefetch = Prefetch::new(b.next, m.div_ceil(ROWS), k);
        for row in (0..m).step_by(ROWS) {
            let left = Left { at: a.at.wrapping_add(row * a.row), ..a };
            let extents = (ROWS.min(m - row), n);
            // SAFETY: guaranteed by the caller.
            unsafe { self.rows(extents, left, &blocks, c.rows(row), output, &mut prefetch) }
        }
    }
}

impl Tiles {
    /// Computes at most 32 rows.
    ///
    /// # Safety
    /// As [`Format::tile`].
    unsafe fn rows(
        &mut self,
        (m, n): (usize, usize),
        a: Left<bf16>,
        blocks: &Blocks,
        c: Target,
        output: Output,
        prefetch: &mut Prefetch,
    ) {
        // SAFETY: guaranteed by the caller; the tiles have the target's rows, and its columns or those of the edge.
        unsafe {
            let to = self.target((m, n), c, output);
            // Prefetches the sums of the rows below while these rows are computed.
            let below = match output {
                Output::Overwrite => c.rows(ROWS).at.cast_const(),
                Output::Accumulate | Output::Continue => c.rows(ROWS).base,
            };
            let mut lines = Lines::new(below, c.row, blocks.len());
            if m <= TILE_ROWS {
                self.configure(Shape::One(m as u8));
                match output {
                    Output::Overwrite => registers::zero(),
                    Output::Accumulate | Output::Continue => registers::load_upper(to.base, to.row),
                }
                blocks.for_each(prefetch, |step, b| {
                    registers::add_one_by_two(a.at.wrapping_add(step), a.row, b, blocks.row());
                });
                registers::store_upper(to.at, to.row);
            } else {
                self.configure(Shape::Two((m - TILE_ROWS) as u8));
                let half = to.rows(TILE_ROWS);
                match output {
                    Output::Overwrite => registers::zero(),
                    Output::Accumulate | Output::Continue => {
                        registers::load_upper(to.base, to.row);
                        registers::load_lower(half.base, to.row);
                    }
                }
                blocks.for_each(prefetch, |step, b| {
                    lines.block();
                    let upper = a.at.wrapping_add(step);
                    let lower = upper.wrapping_add(TILE_ROWS * a.row);
                    registers::add_two_by_two([upper, lower], a.row, b, blocks.row());
                });
                registers::store_upper(to.at, to.row);
                registers::store_lower(half.at, to.row);
            }
            self.finish((m, n), c);
        }
    }

    /// # Safety
    /// The processor must have tiles.
    unsafe fn configure(&mut self, shape: Shape) {
        if self.shape != Some(shape) {
            // SAFETY: guaranteed by the caller.
            unsafe { Config::new(shape).load() }
            self.shape = Some(shape);
        }
    }

    /// Where tiles are stored: in the target, or in the edge (initialized with its addends) if the target is
    /// narrower.
    ///
    /// # Safety
    /// The target must have the extents.
    unsafe fn target(&mut self, (m, n): (usize, usize), c: Target, output: Output) -> Target {
        if n == COLUMNS {
            return c;
        }
        let edge = self.edge.0.as_mut_ptr();
        if output != Output::Overwrite {
            for row in 0..m {
                // SAFETY: guaranteed by the caller; the edge has room for all rows.
                unsafe { std::ptr::copy_nonoverlapping(c.base.add(row * c.row), edge.add(row * COLUMNS), n) }
            }
        }
        Target::new(edge, COLUMNS)
    }

    /// Copies the edge to the target, if [`Tiles::target`] returned the edge.
    ///
    /// # Safety
    /// As [`Tiles::target`].
    unsafe fn finish(&mut self, (m, n): (usize, usize), c: Target) {
        if n < COLUMNS {
            let edge = self.edge.0.as_ptr();
            for row in 0..m {
                // SAFETY: guaranteed by the caller; the edge has all rows.
                unsafe { std::ptr::copy_nonoverlapping(edge.add(row * COLUMNS), c.at.add(row * c.row), n) }
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        if self.shape.is_some() {
            // SAFETY: the tiles were configured, so the processor has them.
            unsafe { registers::release() }
        }
    }
}
