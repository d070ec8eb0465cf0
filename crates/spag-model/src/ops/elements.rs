//! Grids of kernels that go element by element (`cuda/elements.cuh`).

use candle_core::{Result, bail};

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// Blocks of [`THREADS`] threads for `count` elements, `each` of which are one thread's.
///
/// # Errors
/// More blocks than a grid has.
pub(super) fn blocks(count: usize, each: usize) -> Result<u32> {
    match u32::try_from(count.div_ceil(each * THREADS as usize)) {
        Ok(blocks) if blocks <= i32::MAX as u32 => Ok(blocks),
        _ => bail!("{count} elements are too many for one kernel"),
    }
}

/// Elements of a number format in 16 bytes, which is what a thread reads at once.
pub(super) fn in_vector(dtype: candle_core::DType) -> usize {
    16 / dtype.size_in_bytes().max(1)
}
