//! Operands and outputs of products, and how their sums are split into chains.

use std::ops::Range;

use candle_core::{DType, Result, Tensor};
use half::bf16;

use super::buffer::LANES;
use crate::cpu::{self, Stored};

/// Rows of a full tile.
pub(crate) const ROWS: usize = 6;
/// Columns of the widest tile.
pub(crate) const COLUMNS: usize = 64;

/// Whether a product overwrites its output, is added to it, or continues its sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    Overwrite,
    /// Adds a separate chain's sum to the output.
    Accumulate,
    /// Continues the output's chain, bit-identical to one product over the steps of both.
    Continue,
}

/// Steps per chain of a sum of `k` steps, except the last chain: at most `most`, and a multiple of `multiple`. It depends only
/// on k, so a row of a product depends only on its own values.
pub(crate) fn chain_len(k: usize, most: usize, multiple: usize) -> usize {
    k.div_ceil(k.div_ceil(most).max(1)).next_multiple_of(multiple).max(1)
}

/// Maximum steps of a chain of fused multiply-adds, the same in training and generation for bit-identical results.
pub(crate) const DEPTH: usize = 256;
/// Chain lengths of fused multiply-adds, except the last, are multiples of this.
pub(crate) const CHAIN_STEPS: usize = LANES;

/// The initial value of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start<'a> {
    /// Zero: the output is overwritten.
    Zero,
    /// The output's current values.
    Output,
    /// Another matrix of the output's shape.
    Of(&'a [f32]),
}

impl Start<'_> {
    /// Writes the sums of the elements from `at` on to `c`, added to their initial values.
    pub(crate) fn put(self, sums: &[f32], at: usize, c: &mut [f32]) {
        match self {
            Self::Zero => c.copy_from_slice(&sums[..c.len()]),
            Self::Output => c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum),
            Self::Of(base) => c.iter_mut().zip(&base[at..]).zip(sums).for_each(|((c, base), sum)| *c = base + sum),
        }
    }
}

/// Storage order of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    /// Row-major.
    Rows,
    /// Column-major.
    Columns,
}

/// Numbers that bf16 products round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
}

impl<'a> Values<'a> {
    /// Calls `f` with the values of a contiguous CPU tensor.
    pub(crate) fn read<R>(tensor: &Tensor, f: impl FnOnce(Values<'_>) -> Result<R>) -> Result<R> {
        match tensor.dtype() {
            DType::BF16 => bf16::read(tensor, |values| f(Values::Bf16(values))),
            _ => cpu::read(tensor, |values| f(Values::F32(values))),
        }
    }

    /// The values of a range.
    ///
    /// # Panics
    /// If the range is outside the values.
    pub(crate) fn range(&self, range: Range<usize>) -> Values<'a> {
        match self {
            Self::F32(values) => Values::F32(&values[range]),
            Self::Bf16(values) => Values::Bf16(&values[range]),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }
}

/// The right operand of a bf16 product, [k, n].
#[derive(Clone, Copy, Debug)]
pub(crate) enum RightOperand<'a> {
    /// Activations or weights, row-major.
    Rows(Values<'a>),
    /// Weights, column-major.
    Columns(&'a [bf16]),
}

/// The left operand: element (i, k) is at `i * row + k * self.k`.
#[derive(Clone, Copy)]
pub(crate) struct Left<T = f32> {
    pub(crate) at: *const T,
    pub(crate) row: usize,
    pub(crate) k: usize,
}

/// A left operand with row stride `stride`, as read by [`Format::tile`](super::Format::tile).
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) stride: usize,
}

/// The right operand: element (k, j) is at `k * self.k + j`.
#[derive(Clone, Copy)]
pub(crate) struct Right<T = f32> {
    pub(crate) at: *const T,
    pub(crate) k: usize,
    pub(crate) next: Next<T>,
}

/// Memory to prefetch because it is read after this tile. Hardware prefetchers stop at 4 KiB page boundaries, every
/// 16 steps of 64 columns.
#[derive(Clone, Copy)]
pub(crate) enum Next<T = f32> {
    /// None. Tiles of f32 prefetch their own right operand from the second-level cache.
    Unknown,
    /// A block like the tile's right operand, one step at a time: for tiles bound by memory.
    Stream(*const T),
    /// One cache line per step, into the second-level cache: for tiles bound by arithmetic.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only tiles of x86 prefetch"))]
    Spread(*const T),
}

/// The output: element (i, j) is at `i * row + j`, and its addend in `base`.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) at: *mut f32,
    pub(crate) base: *const f32,
    pub(crate) row: usize,
}

impl<T> Right<T> {
    /// Row stride `k`.
    pub(crate) fn new(at: *const T, k: usize) -> Self {
        Self { at, k, next: Next::Unknown }
    }

    /// The columns from `column` on, including those of a streamed block.
    pub(crate) fn columns(self, column: usize) -> Self {
        let next = match self.next {
            Next::Stream(next) => Next::Stream(next.wrapping_add(column)),
            next => next,
        };
        Self { at: self.at.wrapping_add(column), next, ..self }
    }

    /// Sets the prefetch.
    pub(crate) fn then(self, next: Next<T>) -> Self {
        Self { next, ..self }
    }
}

impl Target {
    /// An output that is its own addend.
    pub(crate) fn new(at: *mut f32, row: usize) -> Self {
        Self { at, base: at, row }
    }

    /// The columns from `column` on.
    pub(crate) fn columns(self, column: usize) -> Self {
        Self { at: self.at.wrapping_add(column), base: self.base.wrapping_add(column), ..self }
    }

    /// The rows from `row` on.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn rows(self, row: usize) -> Self {
        self.columns(row * self.row)
    }
}

/// Parts per thread of a split output, for load balance.
pub(super) const PARTS: usize = 2;
