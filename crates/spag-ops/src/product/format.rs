//! Formats of packed weights, and their innermost product.

use super::{COLUMNS, Element, Left, Output, Right, Target};

/// The order in which a thread reads the blocks of a right operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// All steps of a panel, then the next panel: memory is read sequentially.
    StepsOfPanel,
    /// A block of steps of all panels, then the next steps: the rows' values stay in a cache.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "the order of AMX"))]
    PanelsOfSteps,
}

/// A format of packed weights with its arithmetic. A value holds the state of a computing thread.
pub(crate) trait Format: Sized + 'static {
    /// Elements of weights.
    type Weight: Element;
    /// Elements of activations.
    type Activation: Copy + Sync;

    /// Columns of a panel.
    const COLUMNS: usize = COLUMNS;
    /// Rows of a full tile.
    const ROWS: usize;
    /// Maximum rows per call of [`Format::tile`]: one tile, or several with the same block of the right operand.
    const BLOCK: usize = Self::ROWS;
    /// Maximum steps of a chain, a sum between updates of the output, so that a block of a panel stays in a cache.
    const DEPTH: usize;
    /// Steps read together.
    const STEPS: usize;
    /// Chain lengths, except the last, are multiples of this, which is a multiple of `STEPS`.
    const CHAIN_STEPS: usize = Self::STEPS;
    /// The order in which blocks of the right operand are read.
    const ORDER: Order = Order::StepsOfPanel;

    /// Initializes this thread.
    fn begin() -> Self;

    /// Index of an element of a panel of `k` steps.
    fn index(k: usize, step: usize, column: usize) -> usize;

    /// `c[m, n] = [c +] a[m, k]·b[k, n]` with m ≤ `BLOCK` and n ≤ `COLUMNS`. The steps of `b` start at a multiple of
    /// `STEPS` in a panel; their number is a multiple of `STEPS`, or they reach the end of the panel.
    ///
    /// # Safety
    /// The processor must have the format's kernels. All elements within the extents must be readable (`a`, `b`) or
    /// exclusively owned (`c`); of `b` all columns of the panel, and of a row of `a` steps up to the next multiple of
    /// `STEPS`, those beyond k being zero.
    unsafe fn tile(
        &mut self,
        extents: (usize, usize, usize),
        a: Left<Self::Activation>,
        b: Right<Self::Weight>,
        c: Target,
        output: Output,
    );
}
