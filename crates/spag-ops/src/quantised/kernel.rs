//! CPU kernels of products with quantised weights, and their selection by path.

use super::activations::{Activations, Tile};
#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::format::Format;
#[cfg(target_arch = "aarch64")]
use super::neon;
use super::panel::{PANEL, Panel};
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::vnni;
use crate::product::CpuPath;

/// Bit-identical kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Any processor.
    Portable,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2 with AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// AVX-512 with AVX512-VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Kernel {
    /// The fastest kernel of a path that this processor supports. Paths above AVX-512 add no byte instructions used here.
    pub(super) fn of(path: CpuPath) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match path {
                CpuPath::Portable | CpuPath::Neon => Self::Portable,
                CpuPath::Avx512 | CpuPath::Avx512Bf16 | CpuPath::Amx if has!("avx512vnni") => Self::Avx512Vnni,
                _ if has!("avxvnni") => Self::AvxVnni,
                _ => Self::Avx2,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match path {
            #[cfg(target_arch = "aarch64")]
            CpuPath::Neon => Self::Neon,
            _ => Self::Portable,
        }
    }

    /// The kernels of this processor.
    #[cfg(test)]
    pub(super) fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let simd = [
                (Self::Avx2, CpuPath::Avx2.is_available()),
                (Self::AvxVnni, CpuPath::Avx2.is_available() && has!("avxvnni")),
                (Self::Avx512Vnni, CpuPath::Avx512.is_available() && has!("avx512vnni")),
            ];
            let simd = simd.into_iter().filter(|(_, is_available)| *is_available).map(|(kernel, _)| kernel);
            std::iter::once(Self::Portable).chain(simd).collect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        [Self::Portable].into_iter().chain(CpuPath::Neon.is_available().then(|| Self::of(CpuPath::Neon))).collect()
    }

    /// Maximum rows of activations per call, limited by the registers for their sums.
    pub(super) fn most_rows(self) -> usize {
        match self {
            Self::Portable => 1,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => 4,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::AvxVnni => 4,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => 12,
        }
    }

    /// Calls `write` with each row number of the tile of `size` rows that starts at `first`, and the row's products with the panel's
    /// rows.
    ///
    /// # Safety
    /// The processor must support the kernel.
    pub(super) unsafe fn products<F: Format>(
        self,
        panel: Panel<'_, F>,
        x: &Activations,
        (first, size): (usize, usize),
        mut write: impl FnMut(usize, &[f32; PANEL]),
    ) {
        let mut all = |sums: &[[f32; PANEL]]| {
            sums.iter().enumerate().for_each(|(index, sums)| write(first + index, sums));
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            match size {
                12 => all(&self.sums::<F, 12>(panel, x.tile(first))),
                8 => all(&self.sums::<F, 8>(panel, x.tile(first))),
                4 => all(&self.sums::<F, 4>(panel, x.tile(first))),
                2 => all(&self.sums::<F, 2>(panel, x.tile(first))),
                _ => all(&self.sums::<F, 1>(panel, x.tile(first))),
            }
        }
    }

    /// Products of a panel with the rows of a tile.
    ///
    /// # Safety
    /// The processor must support the kernel.
    unsafe fn sums<F: Format, const R: usize>(self, panel: Panel<'_, F>, tile: &[Tile<R>]) -> [[f32; PANEL]; R] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Self::Portable => portable::sums::<F, R>(panel, tile),
                #[cfg(target_arch = "aarch64")]
                Self::Neon => neon::sums::<F, R>(panel, tile),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => avx2::sums::<F, R>(panel, tile),
                #[cfg(target_arch = "x86_64")]
                Self::AvxVnni => avx2::sums_vnni::<F, R>(panel, tile),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Vnni => vnni::sums::<F, R>(panel, tile),
            }
        }
    }
}
