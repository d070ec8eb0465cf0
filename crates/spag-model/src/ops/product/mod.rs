//! Products of f32 matrices: the tiles that attention works with, and the large products of linear layers.

mod buffer;
mod grid;
#[cfg(target_arch = "x86_64")]
pub(crate) mod large;
#[cfg(target_arch = "x86_64")]
mod pack;
mod panels;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use buffer::{Buffer, LANES};
pub(crate) use panels::Panels;
pub(crate) use tile::{COLUMNS, ROWS, tile};

/// What happens to the values that the output holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    Overwrite,
    Accumulate,
}

/// What a product is added to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start<'a> {
    /// Nothing: the output is overwritten.
    Zero,
    /// What the output holds.
    Output,
    /// Another matrix of the output's shape.
    Of(&'a [f32]),
}

/// How a side of a product lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    /// As it is named: [rows, columns], row by row.
    Rows,
    /// As its transpose: column by column.
    Columns,
}

/// The left side of a product: element (i, k) lies at `i * row + k * self.k`.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub(crate) at: *const f32,
    pub(crate) row: usize,
    pub(crate) k: usize,
}

/// The right side of a product: element (k, j) lies at `k * self.k + j`.
#[derive(Clone, Copy)]
pub(crate) struct Right {
    pub(crate) at: *const f32,
    pub(crate) k: usize,
    pub(crate) next: Next,
}

/// Memory that will be read after this tile: asked for in time, it is there when it is needed. The processor's own
/// prefetchers stop at pages of 4 KiB, which is 16 steps of 64 columns.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    /// Nothing in particular.
    Unknown,
    /// A block like the tile's right side, a step at a time: for tiles that memory keeps waiting.
    Stream(*const f32),
    /// A cache line a step, into the second-level cache: for tiles that keep the processor busy.
    Spread(*const f32),
}

/// The result of a product: element (i, j) lies at `i * row + j`, and what it adds to there in `base`.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) at: *mut f32,
    pub(crate) base: *const f32,
    pub(crate) row: usize,
}

impl Right {
    /// Rows that lie `k` apart.
    pub(crate) fn new(at: *const f32, k: usize) -> Self {
        Self { at, k, next: Next::Unknown }
    }

    /// From column `column` on.
    pub(crate) fn columns(self, column: usize) -> Self {
        Self { at: self.at.wrapping_add(column), ..self }
    }

    /// With something to ask for meanwhile.
    pub(crate) fn then(self, next: Next) -> Self {
        Self { next, ..self }
    }
}

impl Target {
    /// A result that adds to itself, if it adds at all.
    pub(crate) fn new(at: *mut f32, row: usize) -> Self {
        Self { at, base: at, row }
    }

    /// From column `column` on.
    pub(crate) fn columns(self, column: usize) -> Self {
        Self { at: self.at.wrapping_add(column), base: self.base.wrapping_add(column), ..self }
    }
}

/// Whether the processor has the AVX-512 kernels' instructions.
#[inline]
pub(crate) fn wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512f")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// `to[columns, width]` = the transpose of the row-major matrix `[rows, columns]` at `from`, whose rows lie `stride`
/// apart; what lies beyond its rows up to `width`, a multiple of [`LANES`], is zero.
///
/// # Safety
/// The elements must be readable and `to` writable.
pub(crate) unsafe fn transpose(
    (rows, columns): (usize, usize),
    from: *const f32,
    stride: usize,
    to: *mut f32,
    width: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if wide() {
        // SAFETY: the processor has AVX-512; the caller vouches for the extents.
        return unsafe { pack::columns((columns, rows, width), from, stride, to) };
    }
    for column in 0..columns {
        for row in 0..width {
            // SAFETY: the caller vouches for the extents.
            unsafe { *to.add(column * width + row) = if row < rows { *from.add(row * stride + column) } else { 0.0 } }
        }
    }
}
