//! Products of f32 matrices: the tiles that attention works with, and the large products of linear layers.

#[cfg(target_arch = "x86_64")]
pub(crate) mod large;
#[cfg(target_arch = "x86_64")]
mod pack;
mod tile;

pub(crate) use tile::{COLUMNS, ROWS, tile};

/// What happens to the values that the output holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    Overwrite,
    Accumulate,
}

/// How a side of a product lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    /// As it is named: [rows, columns], row by row.
    Rows,
    /// As its transpose: column by column.
    Columns,
}

/// The left side of a product: element (i, k) lies at `i * row + k * k`.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub(crate) at: *const f32,
    pub(crate) row: usize,
    pub(crate) k: usize,
}

/// The right side of a product: element (k, j) lies at `k * k + j`.
#[derive(Clone, Copy)]
pub(crate) struct Right {
    pub(crate) at: *const f32,
    pub(crate) k: usize,
}

/// The result of a product: element (i, j) lies at `i * row + j`.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) at: *mut f32,
    pub(crate) row: usize,
}

impl Left {
    /// From row `row` and step `k` on.
    pub(crate) fn from(self, row: usize, k: usize) -> Self {
        Self { at: self.at.wrapping_add(row * self.row + k * self.k), ..self }
    }
}

impl Right {
    /// From column `column` on.
    pub(crate) fn columns(self, column: usize) -> Self {
        Self { at: self.at.wrapping_add(column), ..self }
    }
}

impl Target {
    /// From column `column` on.
    pub(crate) fn columns(self, column: usize) -> Self {
        Self { at: self.at.wrapping_add(column), ..self }
    }

    /// From row `row` on.
    pub(crate) fn rows(self, row: usize) -> Self {
        Self { at: self.at.wrapping_add(row * self.row), ..self }
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
