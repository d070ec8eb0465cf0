//! Large products over all threads. AVX-512 machines only.
//!
//! The output is cut into a few equal parts for each thread. A part goes through its columns in blocks of the
//! right side (256 steps by 256 columns, which the second-level cache holds) and, for each, through its rows in tiles
//! (whose 6 × 256 values of the left side the first level holds). Only a transposed right side is copied, block by
//! block; all else is read where it lies.
//!
//! The sums of an element go in blocks of [`DEPTH`] steps whatever the number of rows and threads, so that a row of
//! the result depends on nothing but its own values.

use rayon::prelude::*;

use super::buffer::{Buffer, LANES};
use super::grid::{PARTS, grid};
use super::pack;
use super::tile::avx512::tile;
use super::tile::{COLUMNS, ROWS};
use super::{Left, Output, Right, Side, Start, Target};
use crate::ops::cpu::SharedMut;

/// Most steps of a sum between two visits to the output.
const DEPTH: usize = 256;
/// Panels of the right side that are used again for each tile of rows.
const BLOCK_PANELS: usize = 4;
/// Products of fewer multiplications than this stay on the calling thread: waking another takes longer.
const SMALL: usize = 1 << 21;

/// Operands of a product; `c` is apart, for all parts write to it.
#[derive(Clone, Copy)]
struct Operands<'a> {
    extents: (usize, usize, usize),
    a: (&'a [f32], Side),
    b: (&'a [f32], Side),
    start: Start<'a>,
}

/// Rows and panels of the output that one task computes.
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
    // SAFETY: the extents were checked; no two parts share an element.
    let run = |part: Part| unsafe { compute(&operands, part, c) };
    // Packing counts, which matters for few rows.
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

/// One part of the output.
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
                    // SAFETY: the tile lies inside the extents that the caller vouches for.
                    unsafe { tile(extents, left, right.columns(panel), target, output) }
                }
            }
        }
    }
}
