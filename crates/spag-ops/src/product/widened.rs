//! Products with weights converted to f32 on load.

use super::{CHAIN_STEPS, COLUMNS, DEPTH, Element, Format, Left, Output, ROWS, Right, Target, tile};

/// Weights converted to f32 on load, and f32 activations: chains of fused multiply-adds.
pub(crate) struct Widened<T>(std::marker::PhantomData<T>);

impl<T: Element> Format for Widened<T> {
    type Weight = T;
    type Activation = f32;

    const ROWS: usize = ROWS;
    const DEPTH: usize = DEPTH;
    const STEPS: usize = 1;
    const CHAIN_STEPS: usize = CHAIN_STEPS;

    fn begin() -> Self {
        Self(std::marker::PhantomData)
    }

    fn index(_: usize, step: usize, column: usize) -> usize {
        step * COLUMNS + column
    }

    #[inline]
    unsafe fn tile(&mut self, extents: (usize, usize, usize), a: Left, b: Right<T>, c: Target, output: Output) {
        // SAFETY: guaranteed by the caller.
        unsafe { tile(extents, a, b, c, output) }
    }
}
