//! The kernels of products with quantised weights, and which of them a CPU path has.

use super::activations::Activations;
#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::blocks::Codes;
use super::panel::{PANEL, Panel};
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::vnni;
use crate::product::CpuPath;

/// Kernels with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Any processor.
    Portable,
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
    /// The fastest one within a path that this processor has. Paths above AVX-512 have no other instructions for bytes here.
    pub(super) fn of(path: CpuPath) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match path {
                CpuPath::Portable => Self::Portable,
                CpuPath::Avx512 | CpuPath::Avx512Bf16 | CpuPath::Amx if has!("avx512vnni") => Self::Avx512Vnni,
                _ if has!("avxvnni") => Self::AvxVnni,
                _ => Self::Avx2,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = path;
            Self::Portable
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
        vec![Self::Portable]
    }

    /// Most rows of activations of a call: as many as have their sums in registers.
    fn most_rows(self) -> usize {
        match self {
            Self::Portable => 1,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 2,
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => 4,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => 8,
        }
    }

    /// Calls `write` with the number of each row of `x`, which has as many blocks as the panel, and its products with the
    /// panel's rows.
    ///
    /// # Safety
    /// The processor has the kernel.
    pub(super) unsafe fn products<F: Codes>(
        self,
        panel: Panel<'_>,
        x: &[Activations],
        mut write: impl FnMut(usize, &[f32; PANEL]),
    ) {
        let blocks = panel.scales.len();
        let rows = x.len().checked_div(blocks).unwrap_or(0);
        let mut first = 0;
        while first < rows {
            let row = |index: usize| &x[(first + index) * blocks..(first + index + 1) * blocks];
            let mut all = |sums: &[[f32; PANEL]]| {
                sums.iter().enumerate().for_each(|(index, sums)| write(first + index, sums));
                sums.len()
            };
            // SAFETY: guaranteed by the caller.
            first += unsafe {
                match (rows - first).min(self.most_rows()) {
                    8.. => all(&self.sums::<F, 8>(panel, std::array::from_fn(row))),
                    4.. => all(&self.sums::<F, 4>(panel, std::array::from_fn(row))),
                    2.. => all(&self.sums::<F, 2>(panel, std::array::from_fn(row))),
                    _ => all(&self.sums::<F, 1>(panel, std::array::from_fn(row))),
                }
            };
        }
    }

    /// Products of a panel with some rows.
    ///
    /// # Safety
    /// The processor has the kernel.
    unsafe fn sums<F: Codes, const R: usize>(self, panel: Panel<'_>, rows: [&[Activations]; R]) -> [[f32; PANEL]; R] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Self::Portable => portable::sums::<F, R>(panel, rows),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => avx2::sums::<F, R>(panel, rows),
                #[cfg(target_arch = "x86_64")]
                Self::AvxVnni => avx2::sums_vnni::<F, R>(panel, rows),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Vnni => vnni::sums::<F, R>(panel, rows),
            }
        }
    }
}
