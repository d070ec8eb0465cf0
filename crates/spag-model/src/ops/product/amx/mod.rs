//! Tiles of AMX-BF16.
//!
//! An element of the result is a chain over blocks of 32 steps. `TDPBF16PS` sums the products of a block's even elements
//! and of its odd ones, adds both sums, and adds that to the element; all with fused multiply-adds rounded to nearest even,
//! and denormals treated as zero. This does not depend on the number of rows of a tile, so a row never depends on other
//! rows.

mod detect;
mod registers;

use std::arch::x86_64::*;

use half::bf16;

pub(super) use detect::is_available;
use registers::{Config, Shape};

use super::buffer::LANES;
use super::dot::add_to;
use super::{COLUMNS, Element, Format, Left, Next, Output, Right, Target, pairs};

/// Steps of a tile: 64 bytes of bf16.
const STEPS: usize = 32;
/// Rows of a tile.
const TILE_ROWS: usize = 16;
/// Rows of two tiles, one above the other.
const ROWS: usize = 2 * TILE_ROWS;

/// Panels of pairs, multiplied with AMX-BF16. A value is the state of a thread.
pub(crate) struct Tiles {
    /// The configuration of the tile registers; none before the first use.
    shape: Option<Shape>,
    sums: Sums,
}

/// A block of steps whose last ones are zeros, for panels that end in the middle of a block.
#[repr(align(64))]
struct Padded([bf16; STEPS * COLUMNS]);

/// Sums of a part of the result.
#[repr(align(64))]
struct Sums([f32; ROWS * COLUMNS]);

impl Format for Tiles {
    type Weight = bf16;
    type Activation = bf16;

    const ROWS: usize = ROWS;
    const DEPTH: usize = 512;
    const STEPS: usize = STEPS;

    fn begin() -> Self {
        Self { shape: None, sums: Sums([0.0; ROWS * COLUMNS]) }
    }

    fn pack(rows: &[bf16], k: usize, panel: &mut [bf16]) {
        pairs::pack(rows, k, panel);
    }

    fn index(k: usize, step: usize, column: usize) -> usize {
        pairs::index(k, step, column)
    }

    unsafe fn tile(
        &mut self,
        (m, k, n): (usize, usize, usize),
        a: Left<bf16>,
        b: Right<bf16>,
        c: Target,
        output: Output,
    ) {
        if m == 0 {
            return;
        }
        let shape = Shape::of(m);
        let sums = &mut self.sums;
        // SAFETY: guaranteed by the caller; the tiles get the shape of m rows.
        unsafe {
            if self.shape != Some(shape) {
                Config::new(shape).load();
                self.shape = Some(shape);
            }
            let blocks = Blocks::new(k, b);
            match shape {
                Shape::One(_) => one_by_four(&blocks, a, sums),
                Shape::Two(_) => (0..2).for_each(|half| two_by_two(&blocks, a, half, sums)),
            }
            for row in 0..m {
                write(&sums.0[row * COLUMNS..][..COLUMNS], c, row, n, output);
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

/// The right operand as blocks of [`STEPS`] steps.
struct Blocks {
    right: Right<bf16>,
    full: usize,
    rest: Option<Padded>,
}

impl Blocks {
    /// # Safety
    /// `k` steps of all columns must be readable.
    unsafe fn new(k: usize, right: Right<bf16>) -> Self {
        let (full, rest) = (k / STEPS, k % STEPS);
        let rest = (rest > 0).then(|| {
            let mut padded = Padded([bf16::ZERO; STEPS * COLUMNS]);
            for (step, column) in (0..rest).flat_map(|step| (0..COLUMNS).map(move |column| (step, column))) {
                // SAFETY: guaranteed by the caller.
                let value = unsafe { *right.at.add(full * STEPS * COLUMNS + pairs::index(rest, step, column)) };
                padded.0[pairs::index(STEPS, step, column)] = value;
            }
            padded
        });
        Self { right, full, rest }
    }

    /// Calls `f` with the first step of each block, and its elements. Prefetches what the operand asks for.
    fn for_each(&self, f: impl Fn(usize, *const bf16)) {
        let of_block = STEPS * COLUMNS;
        for block in 0..self.full {
            let (next, lines) = match self.right.next {
                Next::Unknown => (self.right.at, 0),
                Next::Stream(next) => (next.wrapping_add(block * of_block), of_block / bf16::PER_LINE),
                Next::Spread(next) => (next.wrapping_add(block * STEPS * bf16::PER_LINE), STEPS),
            };
            for line in 0..lines {
                // SAFETY: a prefetch reads nothing, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(line * bf16::PER_LINE).cast()) }
            }
            f(block * STEPS, self.right.at.wrapping_add(block * of_block));
        }
        if let Some(rest) = &self.rest {
            f(self.full * STEPS, rest.0.as_ptr());
        }
    }
}

/// At most 16 rows by 64 columns.
///
/// # Safety
/// The tiles must have the shape of the rows, which `a` must have.
unsafe fn one_by_four(blocks: &Blocks, a: Left<bf16>, sums: &mut Sums) {
    // SAFETY: the tiles are configured.
    unsafe { registers::zero() }
    // SAFETY: guaranteed by the caller; a block has 64 columns.
    blocks.for_each(|step, b| unsafe { registers::add_one_by_four(a.at.wrapping_add(step), a.row, b) });
    let at = sums.0.as_mut_ptr();
    // SAFETY: 16 rows by 64 columns of the sums.
    unsafe { registers::store([at, at.add(LANES), at.add(2 * LANES), at.add(3 * LANES)]) }
}

/// 17 to 32 rows by one half of the 64 columns.
///
/// # Safety
/// As [`one_by_four`].
unsafe fn two_by_two(blocks: &Blocks, a: Left<bf16>, half: usize, sums: &mut Sums) {
    // SAFETY: the tiles are configured.
    unsafe { registers::zero() }
    let first = half * COLUMNS / 2;
    blocks.for_each(|step, b| {
        let upper = a.at.wrapping_add(step);
        let lower = upper.wrapping_add(TILE_ROWS * a.row);
        // A pair has two elements.
        // SAFETY: guaranteed by the caller; a block has 64 columns.
        unsafe { registers::add_two_by_two([upper, lower], a.row, b.wrapping_add(2 * first)) }
    });
    // SAFETY: 32 rows by 32 columns of the sums.
    unsafe {
        let upper = sums.0.as_mut_ptr().add(first);
        let lower = upper.add(TILE_ROWS * COLUMNS);
        registers::store([upper, upper.add(LANES), lower, lower.add(LANES)]);
    }
}

/// Writes a row of sums to row `row` of the result.
///
/// # Safety
/// The row must have n columns, which nothing else uses.
#[target_feature(enable = "avx512f")]
unsafe fn write(sums: &[f32], c: Target, row: usize, n: usize, output: Output) {
    for (v, sums) in sums.chunks_exact(LANES).enumerate() {
        // SAFETY: a register of sums; the row is guaranteed by the caller.
        unsafe { add_to(_mm512_loadu_ps(sums.as_ptr()), c, row, v * LANES, n, output) }
    }
}
