//! bf16 products with packed weights: bf16 weights, activations rounded to bf16, and f32 accumulation.

use std::sync::Arc;

use half::bf16;

use super::quantize_lhs::QuantizedLhsF32;
use super::widened::Widened;
use super::{CpuPath, Panels, Rows, SharedMemory, Start, Values};
#[cfg(target_arch = "x86_64")]
use super::{amx::Tiles, dot::Pairs, quantize_lhs::QuantizedLhs};

/// A packed bf16 matrix [k, n], for one of the paths.
pub(crate) enum Bf16Panels {
    /// For paths without bf16 instructions: rounded activations in f32.
    Widened(Panels<Widened<bf16>>),
    /// For AVX512-BF16.
    #[cfg(target_arch = "x86_64")]
    Pairs(Panels<Pairs>),
    /// For AMX.
    #[cfg(target_arch = "x86_64")]
    Tiles(Panels<Tiles>),
}

/// Evaluates an expression for each path's panels.
macro_rules! each {
    ($narrow:expr, $panels:ident => $value:expr) => {
        match $narrow {
            Bf16Panels::Widened($panels) => $value,
            #[cfg(target_arch = "x86_64")]
            Bf16Panels::Pairs($panels) => $value,
            #[cfg(target_arch = "x86_64")]
            Bf16Panels::Tiles($panels) => $value,
        }
    };
}

impl Bf16Panels {
    /// As [`Panels::pack`].
    pub(crate) fn pack(path: CpuPath, extents: (usize, usize), values: &[bf16]) -> Self {
        match path {
            #[cfg(target_arch = "x86_64")]
            CpuPath::Avx512Bf16 => Self::Pairs(Panels::pack(extents, values)),
            #[cfg(target_arch = "x86_64")]
            CpuPath::Amx => Self::Tiles(Panels::pack(extents, values)),
            _ => Self::Widened(Panels::pack(extents, values)),
        }
    }

    /// As [`Panels::pack_in_place`].
    pub(crate) fn pack_in_place(path: CpuPath, extents: (usize, usize), values: &mut [bf16]) {
        match path {
            #[cfg(target_arch = "x86_64")]
            CpuPath::Avx512Bf16 => Panels::<Pairs>::pack_in_place(extents, values),
            #[cfg(target_arch = "x86_64")]
            CpuPath::Amx => Panels::<Tiles>::pack_in_place(extents, values),
            _ => Panels::<Widened<bf16>>::pack_in_place(extents, values),
        }
    }

    /// As [`Panels::of_packed`].
    pub(crate) fn of_packed(
        path: CpuPath,
        extents: (usize, usize),
        values: Arc<SharedMemory<bf16>>,
        start: usize,
    ) -> Self {
        match path {
            #[cfg(target_arch = "x86_64")]
            CpuPath::Avx512Bf16 => Self::Pairs(Panels::of_packed(extents, values, start)),
            #[cfg(target_arch = "x86_64")]
            CpuPath::Amx => Self::Tiles(Panels::of_packed(extents, values, start)),
            _ => Self::Widened(Panels::of_packed(extents, values, start)),
        }
    }

    /// As [`Panels::repack`].
    pub(crate) fn repack(&mut self, values: Values<'_>) {
        each!(self, panels => panels.repack(values));
    }

    /// As [`Panels::unpack_row`].
    pub(crate) fn unpack_row(&self, index: usize, row: &mut [f32]) {
        each!(self, panels => panels.unpack_row(index, row));
    }

    /// Rows of the matrix.
    pub(crate) fn k(&self) -> usize {
        each!(self, panels => panels.k())
    }

    /// Columns of the matrix.
    pub(crate) fn n(&self) -> usize {
        each!(self, panels => panels.n())
    }

    /// `c[m, n] = start + a[m, k]·self`, with `a` rounded to bf16.
    ///
    /// # Panics
    /// If a slice is shorter than its extents.
    pub(crate) fn product(&self, m: usize, a: &[f32], c: &mut [f32], start: Start<'_>) {
        let k = self.k();
        match self {
            Self::Widened(panels) => {
                let rounded = QuantizedLhsF32::new(&a[..m * k]);
                panels.product(m, Rows { values: rounded.values(), stride: k }, c, start);
            }
            #[cfg(target_arch = "x86_64")]
            Self::Pairs(panels) => panels.product(m, QuantizedLhs::new((m, k), a).rows(), c, start),
            #[cfg(target_arch = "x86_64")]
            Self::Tiles(panels) => panels.product(m, QuantizedLhs::new((m, k), a).rows(), c, start),
        }
    }
}
