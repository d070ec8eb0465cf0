//! Large products on all threads.
//!
//! The output is split into a few equal parts per thread. A part iterates over blocks of the right operand, which are
//! packed into the second-level cache, and, for each, over strips of row tiles. A column-major or converted left
//! operand is packed strip by strip. A small operand in the right order is read in place.
//!
//! Sums are split into chains of at most [`DEPTH`] steps, independent of the number of rows and threads, so a row of the
//! result depends only on its own values. All instruction sets use the same chains and are bit-identical.

use std::ops::Range;

use rayon::prelude::*;

use super::ROWS;
use super::blocks::{Operand, Packed};
use super::instructions::{InstructionSet, Nesting, with_instructions};
use super::source::Source;
use super::{CHAIN_STEPS, DEPTH, Output, PARTS, Side, Start, Target, chain_len};
use crate::cpu::SharedMut;

/// Smaller products run on the calling thread: waking another takes longer.
const SMALL: usize = 1 << 21;

/// Operands of a product. `c` is separate, because all parts write to it.
struct Operands<'a, A: Source, B: Source> {
    extents: (usize, usize, usize),
    a: Operand<'a, A>,
    b: Operand<'a, B>,
    start: Start<'a>,
}

/// Rows and panels of the output computed by one task.
struct Part {
    rows: Range<usize>,
    panels: Range<usize>,
}

/// `c[m, n] = start + a[m, k]·b[k, n]`, with operands converted by their sources.
///
/// # Panics
/// If a slice is shorter than its extents.
pub(crate) fn product<A: Source, B: Source>(
    extents: (usize, usize, usize),
    a: (&[A::Stored], Side),
    b: (&[B::Stored], Side),
    c: &mut [f32],
    start: Start<'_>,
) {
    // SAFETY: the processor has the path.
    unsafe { with_instructions!(I => product_with::<I, A, B>(extents, a, b, c, start)) }
}

/// [`product`] with a given instruction set.
///
/// # Safety
/// The processor must support it.
pub(super) unsafe fn product_with<I: InstructionSet, A: Source, B: Source>(
    (m, k, n): (usize, usize, usize),
    a: (&[A::Stored], Side),
    b: (&[B::Stored], Side),
    c: &mut [f32],
    start: Start<'_>,
) {
    assert!(!matches!(start, Start::Of(base) if base.len() < m * n), "product: the base is too short");
    assert!(c.len() >= m * n, "product: the output is too short");
    let operands =
        Operands::<A, B> { extents: (m, k, n), a: Operand::new(a, (m, k)), b: Operand::new(b, (k, n)), start };
    let (tiles, panels) = (m.div_ceil(ROWS), n.div_ceil(I::COLUMNS));
    let c = SharedMut::new(c);
    // SAFETY: the extents were checked; parts are disjoint.
    let run = |part: Part| unsafe { compute::<I, A, B>(&operands, part, c) };
    // Includes packing, which matters for few rows.
    if (m + 8) * k * n < SMALL {
        return run(Part { rows: 0..m, panels: 0..panels });
    }
    let (down, across) = grid::<I>(tiles, panels, PARTS * rayon::current_num_threads());
    (0..down * across).into_par_iter().with_max_len(1).for_each(|task| {
        let (i, j) = (task / across, task % across);
        run(Part {
            rows: tiles * i / down * ROWS..(tiles * (i + 1) / down * ROWS).min(m),
            panels: panels * j / across..panels * (j + 1) / across,
        });
    });
}

/// The (down, across) split of the output that minimizes the time of the largest part. Packing one number takes about as
/// long as twenty products for the right operand, which is transposed, and ten for the left one.
fn grid<I: InstructionSet>(tiles: usize, panels: usize, parts: usize) -> (usize, usize) {
    (1..=parts)
        .map(|down| (down, parts.div_ceil(down).min(panels.max(1))))
        .min_by_key(|(down, across)| {
            let (rows, columns) = (tiles.div_ceil(*down) * ROWS, panels.div_ceil(*across) * I::COLUMNS);
            (rows + 20) * (columns + 10)
        })
        .unwrap_or((1, 1))
}

/// The chains of a sum of `k` steps. At least one, so that the output of an empty sum is written.
fn chains(k: usize) -> impl Iterator<Item = Range<usize>> {
    let depth = chain_len(k, DEPTH, CHAIN_STEPS);
    (0..k.max(1)).step_by(depth).map(move |first| first..(first + depth).min(k))
}

/// Computes one part of the output.
///
/// # Safety
/// The processor must have the instruction set, the slices must have the extents, and nothing else may use the part's
/// elements of `c`.
unsafe fn compute<I: InstructionSet, A: Source, B: Source>(operands: &Operands<'_, A, B>, part: Part, c: SharedMut) {
    let Operands { extents: (_, k, n), a, b, start } = operands;
    let (n, start) = (*n, *start);
    let chains: Vec<_> = chains(*k).collect();
    let steps = I::BLOCK_CHAINS.min(chains.len()) * chains[0].len();
    let mut packed = Packed::<I>::new((a, b), steps, part.rows.len().div_ceil(ROWS));
    for block in chains.chunks(I::BLOCK_CHAINS) {
        let steps = block[0].start..block[block.len() - 1].end;
        for panels in split(&part.panels, I::BLOCK_PANELS) {
            let columns = panels.start * I::COLUMNS..(panels.end * I::COLUMNS).min(n);
            // SAFETY: the block is inside the extents guaranteed by the caller.
            let right = unsafe { packed.right(b, &steps, &columns) };
            for rows in split(&part.rows, I::STRIP_TILES * ROWS) {
                // SAFETY: as above.
                let left = unsafe { packed.left(a, &rows, &steps) };
                let tile = |row_tile: usize, panel: usize, chain: &Range<usize>| {
                    let (row, column) = (rows.start + row_tile * ROWS, columns.start + panel * I::COLUMNS);
                    let (first, step) = (chain.start == 0, chain.start - steps.start);
                    let output = if first && start == Start::Zero { Output::Overwrite } else { Output::Accumulate };
                    let offset = row * n + column;
                    let mut target = Target::new(c.at(offset), n);
                    if let (true, Start::Of(base)) = (first, start) {
                        target.base = base.as_ptr().wrapping_add(offset);
                    }
                    let extents = (ROWS.min(rows.end - row), chain.len(), I::COLUMNS.min(columns.end - column));
                    // SAFETY: the tile is inside the extents guaranteed by the caller.
                    unsafe { I::tile(extents, left.tile(row_tile, step), right.panel(panel, step), target, output) }
                };
                let (tiles, panels) = (rows.len().div_ceil(ROWS), panels.len());
                match I::NESTING {
                    Nesting::RowsOfPanel => {
                        for (panel, chain) in (0..panels).flat_map(|panel| block.iter().map(move |c| (panel, c))) {
                            (0..tiles).for_each(|row_tile| tile(row_tile, panel, chain));
                        }
                    }
                    Nesting::PanelsOfRows => {
                        for (row_tile, chain) in (0..tiles).flat_map(|tile| block.iter().map(move |c| (tile, c))) {
                            (0..panels).for_each(|panel| tile(row_tile, panel, chain));
                        }
                    }
                }
            }
        }
    }
}

/// Consecutive ranges of at most `len`.
fn split(range: &Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.clone().step_by(len).map(move |first| first..(first + len).min(end))
}
