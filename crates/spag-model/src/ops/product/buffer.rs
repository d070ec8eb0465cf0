//! Scratch memory of a thread for packed matrices, aligned to cache lines.

use std::cell::Cell;

/// Floats of an AVX-512 register and of a cache line.
pub(crate) const LANES: usize = 16;

/// A cache line, so that buffers begin at one and no load crosses two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(#[expect(dead_code, reason = "read through pointers")] [f32; LANES]);

impl Line {
    pub(super) const ZERO: Self = Self([0.0; LANES]);
}

/// A buffer of this thread, given back when it is dropped: products come by the thousand, and fresh memory costs a
/// page fault every 4 KiB.
pub(crate) struct Buffer(Vec<Line>);

thread_local! {
    static SPARE: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

impl Buffer {
    /// With room for `floats`; what it holds is left from its last use.
    pub(crate) fn new(floats: usize) -> Self {
        let mut lines = SPARE.take();
        let count = floats.div_ceil(LANES);
        if lines.len() < count {
            lines.resize(count, Line::ZERO);
        }
        Self(lines)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut f32 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.0));
    }
}
