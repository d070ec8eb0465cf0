//! The right operand in blocks of one tile's steps, with prefetching.

use std::arch::x86_64::*;

use half::bf16;

use super::super::Element;
use super::{COLUMNS, LANES, Next, ROWS, Right, STEPS, pairs};

/// The right operand.
pub(super) struct Blocks {
    at: *const bf16,
    /// Elements between consecutive steps.
    row: usize,
    full: usize,
    rest: Option<Padded>,
}

/// A zero-padded block, for panels that end in the middle of a block.
#[repr(align(64))]
struct Padded([bf16; STEPS * COLUMNS]);

impl Blocks {
    /// # Safety
    /// `k` steps must be readable; if they do not fill the last block, with all columns of a panel.
    pub(super) unsafe fn new(k: usize, right: Right<bf16>) -> Self {
        let (full, rest) = (k / STEPS, k % STEPS);
        let rest = (rest > 0).then(|| {
            let mut padded = Padded([bf16::ZERO; STEPS * COLUMNS]);
            for (step, column) in (0..rest).flat_map(|step| (0..COLUMNS).map(move |column| (step, column))) {
                // SAFETY: guaranteed by the caller.
                let value =
                    unsafe { *right.at.add(full * STEPS * COLUMNS + pairs::index::<COLUMNS>(rest, step, column)) };
                padded.0[pairs::index::<COLUMNS>(STEPS, step, column)] = value;
            }
            padded
        });
        Self { at: right.at, row: right.k, full, rest }
    }

    /// Elements between consecutive steps.
    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.full + usize::from(self.rest.is_some())
    }

    /// Calls `f` with the first step of each block and a pointer to its elements.
    #[inline(always)]
    pub(super) fn for_each(&self, prefetch: &mut Prefetch, mut f: impl FnMut(usize, *const bf16)) {
        for block in 0..self.full {
            prefetch.block();
            f(block * STEPS, self.at.wrapping_add(block * STEPS * self.row));
        }
        if let Some(rest) = &self.rest {
            f(self.full * STEPS, rest.0.as_ptr());
        }
    }
}

/// Rows of two tiles' sums to prefetch, some per block.
pub(super) struct Lines {
    at: *const f32,
    row: usize,
    rows: usize,
}

impl Lines {
    /// Rows `row` elements apart, spread over `blocks`.
    pub(super) fn new(at: *const f32, row: usize, blocks: usize) -> Self {
        Self { at, row, rows: ROWS.div_ceil(blocks.max(1)) }
    }

    /// Prefetches the lines of one block.
    #[inline(always)]
    pub(super) fn block(&mut self) {
        for _ in 0..self.rows {
            for line in [self.at, self.at.wrapping_add(LANES)] {
                // SAFETY: a prefetch is valid at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
            }
            self.at = self.at.wrapping_add(self.row);
        }
    }
}

/// Lines to prefetch with each block.
pub(super) struct Prefetch {
    at: *const bf16,
    /// Lines per block, and all remaining lines.
    lines: usize,
    left: usize,
}

impl Prefetch {
    /// The prefetches requested by the operand, spread over `k` steps read `times` times.
    pub(super) fn new(next: Next<bf16>, times: usize, k: usize) -> Self {
        let all = k * COLUMNS / bf16::PER_LINE;
        let lines = STEPS * COLUMNS / bf16::PER_LINE;
        match next {
            Next::Unknown => Self { at: std::ptr::null(), lines: 0, left: 0 },
            Next::Stream(at) => Self { at, lines, left: all },
            Next::Spread(at) => Self { at, lines: lines.div_ceil(times.max(1)), left: all },
        }
    }

    /// Prefetches the lines of one block.
    #[inline(always)]
    fn block(&mut self) {
        let lines = self.lines.min(self.left);
        for line in 0..lines {
            // SAFETY: a prefetch is valid at any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.at.wrapping_add(line * bf16::PER_LINE).cast()) }
        }
        self.at = self.at.wrapping_add(lines * bf16::PER_LINE);
        self.left -= lines;
    }
}
