//! Large products on all threads. AVX-512 only.
//!
//! The output is split into a few equal parts per thread. A part iterates over blocks of the right operand (256 steps
//! by 256 columns, which fit into the second-level cache) and, for each, over row tiles (whose 6 × 256 values of the
//! left operand fit into the first level). Only a transposed right operand is copied, block by block.
//!
//! Sums are split into blocks of [`DEPTH`] steps, independent of the number of rows and threads, so a row of the result
//! depends only on its own values.

use rayon::prelude::*;

use super::buffer::{Buffer, LANES};
use super::pack;
use super::tile::avx512::tile;
use super::tile::{COLUMNS, ROWS};
use super::{Left, Output, PARTS, Right, Side, Start, Target, grid};
use crate::ops::cpu::SharedMut;

/// Maximum steps of a sum between updates of the output.
const DEPTH: usize = 256;
/// Panels of the right operand reused by each row tile.
const BLOCK_PANELS: usize = 4;
/// Smaller products run on the calling thread: waking another takes longer.
const SMALL: usize = 1 << 21;

/// Operands of a product. `c` is separate, because all parts write to it.
#[derive(Clone, Copy)]
struct Operands<'a> {
    extents: (usize, usize, usize),
    a: (&'a [f32], Side),
    b: (&'a [f32], Side),
    start: Start<'a>,
}

/// Rows and panels of the output computed by one task.
struct Part {
    rows: std::ops::Range<usize>,
    panels: std::ops::Range<usize>,
}

/// `c[m, n] = start + a[m, k]·b[k, n]`.
///
/// # Panics
/// If a slice is shorter than its extents.
pub(crate) fn product(
    (m, k, n): (usize, usize, usize),
    a: (&[f32], Side),
    b: (&[f32], Side),
    c: &mut [f32],
    start: Start<'_>,
) {
    assert!(!matches!(start, Start::Of(base) if base.len() < m * n), "product: the base is too short");
    assert!(a.0.len() >= m * k && b.0.len() >= k * n && c.len() >= m * n, "product: a side is too short");
    let operands = Operands { extents: (m, k, n), a, b, start };
    let (tiles, panels) = (m.div_ceil(ROWS), n.div_ceil(COLUMNS));
    let c = SharedMut::new(c);
    // SAFETY: the extents were checked; parts are disjoint.
    let run = |part: Part| unsafe { compute(&operands, part, c) };
    // Includes packing, which matters for few rows.
    if (m + 8) * k * n < SMALL {
        return run(Part { rows: 0..m, panels: 0..panels });
    }
    let (down, across) = grid(tiles, panels, PARTS * rayon::current_num_threads());
    (0..down * across).into_par_iter().with_max_len(1).for_each(|task| {
        let (i, j) = (task / across, task % across);
        run(Part {
            rows: tiles * i / down * ROWS..(tiles * (i + 1) / down * ROWS).min(m),
            panels: panels * j / across..panels * (j + 1) / across,
        });
    });
}

/// Computes one part of the output.
///
/// # Safety
/// The slices must have the extents, and nothing else may use the part's elements of `c`.
unsafe fn compute(operands: &Operands<'_>, part: Part, c: SharedMut) {
    let Operands { extents: (m, k, n), a: (a, a_side), b: (b, b_side), start } = *operands;
    let blocks = k.div_ceil(DEPTH).max(1);
    let depth = k.div_ceil(blocks).next_multiple_of(LANES);
    let mut buffer = match b_side {
        Side::Rows => None,
        Side::Columns => Some(Buffer::new(depth * BLOCK_PANELS * COLUMNS)),
    };
    for step in (0..blocks).map(|block| block * depth) {
        let steps = depth.min(k.saturating_sub(step));
        let output = if step == 0 && start == Start::Zero { Output::Overwrite } else { Output::Accumulate };
        for first in part.panels.clone().step_by(BLOCK_PANELS) {
            let column = first * COLUMNS;
            let columns = (part.panels.end * COLUMNS).min(n).min(column + BLOCK_PANELS * COLUMNS) - column;
            let right = match &mut buffer {
                None => Right::new(b.as_ptr().wrapping_add(step * n + column), n),
                Some(buffer) => {
                    let width = columns.next_multiple_of(LANES);
                    let from = b.as_ptr().wrapping_add(column * k + step);
                    // SAFETY: rows `column..` and steps `step..` of b's transpose; the buffer has room for a block.
                    unsafe { pack::columns((steps, columns, width), from, k, buffer.as_mut_ptr()) };
                    Right::new(buffer.as_mut_ptr(), width)
                }
            };
            for row in part.rows.clone().step_by(ROWS) {
                let left = match a_side {
                    Side::Rows => Left { at: a.as_ptr().wrapping_add(row * k + step), row: k, k: 1 },
                    Side::Columns => Left { at: a.as_ptr().wrapping_add(step * m + row), row: 1, k: m },
                };
                let rows = ROWS.min(part.rows.end - row);
                for panel in (0..columns).step_by(COLUMNS) {
                    let offset = row * n + column + panel;
                    let mut target = Target::new(c.at(offset), n);
                    if let (0, Start::Of(base)) = (step, start) {
                        target.base = base.as_ptr().wrapping_add(offset);
                    }
                    let extents = (rows, steps, COLUMNS.min(columns - panel));
                    // SAFETY: the tile is inside the extents guaranteed by the caller.
                    unsafe { tile(extents, left, right.columns(panel), target, output) }
                }
            }
        }
    }
}
