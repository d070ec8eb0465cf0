//! Large products over all threads: the right side is packed once for all, then the threads take blocks of rows.
//!
//! A block of the right side (256 steps by 512 columns) stays in the second-level cache and a tile's rows of the left
//! side in the first. Rows of the left side are read where they lie; only a transposed left side is packed.
//!
//! The sums of an element go in blocks of [`DEPTH`] steps whatever the number of rows and threads, so that a row of
//! the result depends on nothing but its own values. AVX-512 machines only.

use rayon::prelude::*;

use super::pack::{self, Buffer, LANES};
use super::tile::avx512::tile;
use super::tile::{COLUMNS, ROWS};
use super::{Left, Output, Right, Side, Target};
use crate::ops::cpu::SharedMut;

/// Most steps of a sum between two visits to the output.
const DEPTH: usize = 256;
/// Panels of the right side that are used again for each tile of rows.
const BLOCK_PANELS: usize = 8;
/// Most row tiles of a task.
const TASK_TILES: usize = 16;
/// Row tiles up to which the panels, not the rows, are split among the threads, and each is packed where it is used.
const FEW_TILES: usize = 8;
/// Products of fewer multiplications than this stay on the calling thread.
const SMALL: usize = 1 << 18;

/// The right side `[k, n]` of a product: where it lies, or packed in panels of 64 columns.
#[derive(Clone, Copy)]
struct Panels<'a> {
    values: &'a [f32],
    packed: bool,
    k: usize,
    n: usize,
}

impl Panels<'_> {
    /// Panel `panel` from step `step` on.
    fn at(&self, panel: usize, step: usize) -> Right {
        let (stride, at) = match self.packed {
            true => {
                let (_, width) = panel_width(self.n, panel);
                (width, panel * COLUMNS * self.k + step * width)
            }
            false => (self.n, step * self.n + panel * COLUMNS),
        };
        Right { at: self.values.as_ptr().wrapping_add(at), k: stride }
    }
}

/// Steps of each block but the last.
fn depth(k: usize) -> usize {
    let blocks = k.div_ceil(DEPTH).max(1);
    k.div_ceil(blocks).next_multiple_of(LANES)
}

/// Columns that panel `panel` of `n` columns holds, and its width rounded up to whole registers.
fn panel_width(n: usize, panel: usize) -> (usize, usize) {
    let columns = (n - panel * COLUMNS).min(COLUMNS);
    (columns, columns.next_multiple_of(LANES))
}

/// Runs the tasks on all threads, or here if the whole work is small.
fn each(tasks: usize, work: usize, run: impl Fn(usize) + Sync + Send) {
    if work < SMALL || tasks == 1 {
        (0..tasks).for_each(run);
    } else {
        (0..tasks).into_par_iter().with_max_len(1).for_each(run);
    }
}

/// Packs steps `first..first + steps` of one panel of the transpose of `b` [n, k].
///
/// # Safety
/// `b` must have its extents, and `to` room for the panel's part.
unsafe fn pack_panel((k, n): (usize, usize), b: &[f32], panel: usize, (first, steps): (usize, usize), to: *mut f32) {
    let (columns, width) = panel_width(n, panel);
    // SAFETY: the caller vouches for the extents.
    unsafe { pack::columns((steps, columns, width), b.as_ptr().add(panel * COLUMNS * k + first), k, to) }
}

/// `c[m, n] = [c +] a[m, k]·b[k, n]`.
///
/// # Panics
/// If a slice is shorter than its extents.
pub(crate) fn product(
    (m, k, n): (usize, usize, usize),
    a: (&[f32], Side),
    b: (&[f32], Side),
    c: &mut [f32],
    output: Output,
) {
    assert!(a.0.len() >= m * k && b.0.len() >= k * n && c.len() >= m * n, "product: a side is too short");
    if a.1 == Side::Rows && m <= FEW_TILES * ROWS {
        return few_rows((m, k, n), a.0, b, c, output);
    }
    let packed = match b.1 {
        Side::Rows => None,
        Side::Columns => Some(pack_transpose((k, n), b.0)),
    };
    let right = match &packed {
        Some(buffer) => Panels { values: buffer.as_slice(), packed: true, k, n },
        None => Panels { values: b.0, packed: false, k, n },
    };
    let tiles = m.div_ceil(ROWS);
    let tasks = tiles.div_ceil(TASK_TILES).next_multiple_of(rayon::current_num_threads()).min(tiles);
    let c = SharedMut::new(c);
    each(tasks, m * k * n, |task| {
        let first = tiles * task / tasks * ROWS;
        let last = (tiles * (task + 1) / tasks * ROWS).min(m);
        // SAFETY: the extents were checked; the rows of `c` from `first` to `last` belong to this task alone.
        unsafe { rows(m, (first, last), a, right, c, output) }
    });
}

fn pack_transpose((k, n): (usize, usize), b: &[f32]) -> Buffer {
    let mut buffer = Buffer::shared(k * n.next_multiple_of(LANES));
    let to = SharedMut::from_ptr(buffer.as_mut_ptr());
    each(n.div_ceil(COLUMNS), 4 * k * n, |panel| {
        // SAFETY: the caller checked `b`; every panel has its own part of the buffer.
        unsafe { pack_panel((k, n), b, panel, (0, k), to.at(panel * COLUMNS * k)) }
    });
    buffer
}

/// Rows `first..last` of the product.
///
/// # Safety
/// `a` and `c` must have the extents, and nothing else may use the rows of `c`.
unsafe fn rows(
    m: usize,
    (first, last): (usize, usize),
    (a, side): (&[f32], Side),
    b: Panels,
    c: SharedMut,
    output: Output,
) {
    let (k, n) = (b.k, b.n);
    let (panels, depth) = (n.div_ceil(COLUMNS), depth(k));
    let packed = match side {
        Side::Rows => 0,
        Side::Columns => (last - first).next_multiple_of(ROWS) * depth,
    };
    let mut own = Buffer::own(packed);
    for step in (0..k.max(1)).step_by(depth.max(1)) {
        let steps = depth.min(k - step);
        let output = if step == 0 { output } else { Output::Accumulate };
        if side == Side::Columns {
            // SAFETY: steps below k and columns first..last below m of a [k, m] matrix.
            unsafe {
                pack::left((last - first, steps), a.as_ptr().add(step * m + first), m, own.as_mut_ptr());
            }
        }
        for block in (0..panels).step_by(BLOCK_PANELS) {
            for row in (first..last).step_by(ROWS) {
                let a = match side {
                    Side::Rows => Left { at: a.as_ptr().wrapping_add(row * k + step), row: k, k: 1 },
                    Side::Columns => Left { at: own.as_ptr().wrapping_add((row - first) * steps), row: 1, k: ROWS },
                };
                for panel in block..(block + BLOCK_PANELS).min(panels) {
                    let (columns, _) = panel_width(n, panel);
                    let target = Target { at: c.at(row * n + panel * COLUMNS), row: n };
                    let extents = (ROWS.min(last - row), steps, columns);
                    // SAFETY: the tile lies inside the extents that the caller vouches for.
                    unsafe { tile(extents, a, b.at(panel, step), target, output) }
                }
            }
        }
    }
}

/// [`product`] of few rows: the panels are split among the threads, and each is packed where it is used.
fn few_rows(
    (m, k, n): (usize, usize, usize),
    a: &[f32],
    (b, side): (&[f32], Side),
    c: &mut [f32],
    output: Output,
) {
    let depth = depth(k);
    let c = SharedMut::new(c);
    each(n.div_ceil(COLUMNS), (m + 8) * k * n, |panel| {
        let (columns, width) = panel_width(n, panel);
        let packed = match side {
            Side::Rows => 0,
            Side::Columns => depth * width,
        };
        let mut own = Buffer::own(packed);
        for step in (0..k.max(1)).step_by(depth.max(1)) {
            let steps = depth.min(k - step);
            let output = if step == 0 { output } else { Output::Accumulate };
            let b = match side {
                Side::Rows => Right { at: b.as_ptr().wrapping_add(step * n + panel * COLUMNS), k: n },
                Side::Columns => {
                    // SAFETY: the caller checked `b`; the buffer has room for a block of steps.
                    unsafe { pack_panel((k, n), b, panel, (step, steps), own.as_mut_ptr()) };
                    Right { at: own.as_ptr(), k: width }
                }
            };
            for row in (0..m).step_by(ROWS) {
                let a = Left { at: a.as_ptr().wrapping_add(row * k + step), row: k, k: 1 };
                let target = Target { at: c.at(row * n + panel * COLUMNS), row: n };
                // SAFETY: the caller checked the extents; the columns of this panel belong to this task alone.
                unsafe { tile((ROWS.min(m - row), steps, columns), a, b, target, output) }
            }
        }
    });
}
