//! Kernel launches, independent of the device.

use std::fmt;

use candle_core::{DType, Result, Tensor, bail};

/// The compiled kernels of one `.cu` file.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Stem of the file's path.
    pub name: &'static str,
    /// Machine code and PTX in nvcc's format; empty without the feature `cuda`.
    pub image: &'static [u8],
}

/// The [`Module`] of a `.cu` file, by its stem.
macro_rules! module {
    ($name:literal) => {
        $crate::kernels::Module {
            name: $name,
            #[cfg(feature = "cuda")]
            image: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".fatbin")),
            #[cfg(not(feature = "cuda"))]
            image: &[],
        }
    };
}
pub(crate) use module;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Memory that is read; contiguous.
    In(&'a Tensor),
    /// Memory that is written, or read and written; contiguous.
    Out(&'a Tensor),
    /// A null pointer: an omitted argument.
    Null,
    /// `unsigned`.
    U32(u32),
    /// `unsigned long long`.
    U64(u64),
    /// `float`.
    F32(f32),
}

/// A kernel with its grid, block and arguments.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The module that contains the kernel.
    pub module: Module,
    /// Exported name of the kernel.
    pub kernel: String,
    /// Number of blocks.
    pub grid: [u32; 3],
    /// Threads per block; a multiple of 32.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: usize,
    /// Arguments, in the order of the kernel's parameters.
    pub args: &'a [Arg<'a>],
}

impl Launch<'_> {
    /// A launch of a kernel of `module` with a single block of [`THREADS`] threads, no shared memory and no arguments.
    pub(crate) fn of(module: Module) -> Self {
        Self { module, kernel: String::new(), grid: [1; 3], block: THREADS, shared_bytes: 0, args: &[] }
    }

    /// Whether the grid has no blocks.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

impl fmt::Display for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.kernel)?;
        let [x, y, z] = self.grid;
        write!(f, " (grid {x}×{y}×{z}, block {}, {} bytes of shared memory; ", self.block, self.shared_bytes)?;
        for (i, arg) in self.args.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match arg {
                Arg::In(t) | Arg::Out(t) => write!(f, "{comma}{:?} {:?}", t.dtype(), t.dims())?,
                Arg::Null => write!(f, "{comma}none")?,
                Arg::U32(x) => write!(f, "{comma}{x}")?,
                Arg::U64(x) => write!(f, "{comma}{x}")?,
                Arg::F32(x) => write!(f, "{comma}{x}")?,
            }
        }
        write!(f, ")")
    }
}

/// Suffix of kernel names for a number format.
///
/// # Errors
/// The format is neither f32 nor bf16.
pub(crate) fn suffix(dtype: DType) -> Result<&'static str> {
    match dtype {
        DType::F32 => Ok("f32"),
        DType::BF16 => Ok("bf16"),
        other => bail!("there are kernels for f32 and bf16, not for {other:?}"),
    }
}

/// Threads per block of elementwise kernels (`cuda/elements.cuh`).
pub(crate) const THREADS: u32 = 256;

/// Blocks of [`THREADS`] threads for `count` elements, `each` of them per thread.
///
/// # Errors
/// More blocks than a grid can have.
pub(crate) fn blocks(count: usize, each: usize) -> Result<u32> {
    match u32::try_from(count.div_ceil(each * THREADS as usize)) {
        Ok(blocks) if blocks <= i32::MAX as u32 => Ok(blocks),
        _ => bail!("{count} elements are too many for one kernel"),
    }
}

/// Elements in a 16-byte vector load.
pub(crate) fn vector_len(dtype: DType) -> usize {
    16 / dtype.size_in_bytes().max(1)
}
