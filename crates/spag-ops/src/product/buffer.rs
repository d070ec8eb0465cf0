//! Thread-local scratch memory for packed matrices, aligned to cache lines.

use std::cell::Cell;

/// Floats per AVX-512 register and per cache line.
pub(crate) const LANES: usize = 16;

/// One cache line, so that no vector load crosses a line boundary.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(#[expect(dead_code, reason = "read through pointers")] [f32; LANES]);

impl Line {
    pub(super) const ZERO: Self = Self([0.0; LANES]);
}

/// A thread-local buffer, returned on drop. Products are frequent, and fresh memory costs a page fault every 4 KiB.
pub(crate) struct Buffer(Vec<Line>);

thread_local! {
    static SPARE: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

impl Buffer {
    /// A buffer for `floats` elements with arbitrary contents.
    pub(crate) fn new(floats: usize) -> Self {
        let mut lines = SPARE.take();
        let count = floats.div_ceil(LANES);
        if lines.len() < count {
            lines.resize(count, Line::ZERO);
        }
        Self(lines)
    }

    pub(crate) fn as_ptr(&self) -> *const f32 {
        self.0.as_ptr().cast()
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
