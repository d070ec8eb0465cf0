//! Instruction sets for large f32 products: tiles, packing, and block sizes that fit registers and caches.

use super::source::{Exact, Source};
#[cfg(target_arch = "aarch64")]
use super::tile::neon;
use super::tile::portable;
#[cfg(target_arch = "x86_64")]
use super::tile::{avx2, avx512};
use super::{COLUMNS, Element, Left, Output, Right, Target, pack};

/// The order in which a thread multiplies the tiles of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Nesting {
    /// All row tiles of a panel, which stays in the first-level cache, then the next panel.
    RowsOfPanel,
    /// All panels of a row tile, which stays in the first-level cache, then the next row tile.
    PanelsOfRows,
}

/// An instruction set.
pub(super) trait InstructionSet {
    /// Columns of a packed panel: those of a full tile.
    const COLUMNS: usize;
    /// Chains per block of the right operand. Two chains halve the visits of the output's lines.
    const BLOCK_CHAINS: usize;
    /// Panels per block, which stays in the second-level cache.
    const BLOCK_PANELS: usize;
    /// Row tiles of a strip of the left operand.
    const STRIP_TILES: usize;
    /// Largest operand, in floats, that is read in place although a tile's reads are rows apart.
    const IN_PLACE: usize;
    /// The order of tiles.
    const NESTING: Nesting;

    /// As [`super::tile`].
    ///
    /// # Safety
    /// As [`super::tile`], on a processor with the instruction set.
    unsafe fn tile<T: Element>(extents: (usize, usize, usize), a: Left, b: Right<T>, c: Target, output: Output);

    /// `panel[k, width]` = the transpose of `n` ≤ width rows of the row-major matrix `from` with row stride
    /// `stride`; columns beyond are zero.
    ///
    /// # Safety
    /// The processor must have the instruction set, the elements must be readable and the panel writable.
    unsafe fn pack_columns<S: Source>(
        extents: (usize, usize, usize),
        from: *const S::Stored,
        stride: usize,
        panel: *mut f32,
    );

    /// `panel[k, width]` = `n` ≤ width columns of the row-major matrix `from`; columns beyond are not written.
    ///
    /// # Safety
    /// As [`InstructionSet::pack_columns`].
    unsafe fn pack_rows<S: Source>(
        extents: (usize, usize, usize),
        from: *const S::Stored,
        stride: usize,
        panel: *mut f32,
    );

    /// Strips of 6 of the `m` columns of the row-major matrix `from`: (m, k, floats between strips). A step has 8 floats;
    /// those beyond the columns are arbitrary.
    ///
    /// # Safety
    /// As [`InstructionSet::pack_columns`].
    unsafe fn pack_strips<S: Source>(
        extents: (usize, usize, usize),
        from: *const S::Stored,
        stride: usize,
        strips: *mut f32,
    );
}

/// Implements [`InstructionSet`] with the functions of a tile module and a packing module.
macro_rules! instruction_set {
    ($name:ident, $tiles:ident, $pack:ident, $columns:expr, ($chains:expr, $panels:expr, $tiles_of_strip:expr, $in_place:expr, $nesting:expr)) => {
        impl InstructionSet for $name {
            const COLUMNS: usize = $columns;
            const BLOCK_CHAINS: usize = $chains;
            const BLOCK_PANELS: usize = $panels;
            const STRIP_TILES: usize = $tiles_of_strip;
            const IN_PLACE: usize = $in_place;
            const NESTING: Nesting = $nesting;

            #[inline(always)]
            unsafe fn tile<T: Element>(
                extents: (usize, usize, usize),
                a: Left,
                b: Right<T>,
                c: Target,
                output: Output,
            ) {
                // SAFETY: guaranteed by the caller.
                unsafe { $tiles::tile(extents, a, b, c, output) }
            }

            #[inline(always)]
            unsafe fn pack_columns<S: Source>(
                extents: (usize, usize, usize),
                from: *const S::Stored,
                stride: usize,
                panel: *mut f32,
            ) {
                // SAFETY: guaranteed by the caller.
                unsafe { pack::$pack::columns::<S>(extents, from, stride, panel) }
            }

            #[inline(always)]
            unsafe fn pack_rows<S: Source>(
                extents: (usize, usize, usize),
                from: *const S::Stored,
                stride: usize,
                panel: *mut f32,
            ) {
                // SAFETY: guaranteed by the caller.
                unsafe { pack::$pack::rows::<S>(extents, from, stride, panel) }
            }

            #[inline(always)]
            unsafe fn pack_strips<S: Source>(
                extents: (usize, usize, usize),
                from: *const S::Stored,
                stride: usize,
                strips: *mut f32,
            ) {
                // SAFETY: guaranteed by the caller.
                unsafe { pack::$pack::strips::<S>(extents, from, stride, strips) }
            }
        }
    };
}

/// AVX-512: tiles of 6 × 64. A panel is larger than the first-level cache.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;
#[cfg(target_arch = "x86_64")]
instruction_set!(Avx512, avx512, avx512, COLUMNS, (2, 4, 8, 1 << 17, Nesting::PanelsOfRows));

/// AVX2 with FMA: tiles of 6 × 16. 256 steps of a panel are half of the first-level cache.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;
#[cfg(target_arch = "x86_64")]
instruction_set!(Avx2, avx2, avx2, 16, (1, 32, 16, 1 << 12, Nesting::RowsOfPanel));

/// NEON: tiles of 6 × 16. Blocks are those of AVX2, half the cache sizes of a Neoverse N1; not tuned by measurement.
#[cfg(target_arch = "aarch64")]
pub(super) struct Neon;
#[cfg(target_arch = "aarch64")]
instruction_set!(Neon, neon, neon, 16, (1, 32, 16, 1 << 12, Nesting::RowsOfPanel));

/// Any processor.
pub(super) struct Portable;
instruction_set!(Portable, portable, portable, COLUMNS, (2, 4, 8, 1 << 17, Nesting::PanelsOfRows));

/// Evaluates an expression with the type of the process's instruction set, which the processor supports.
macro_rules! with_instructions {
    ($set:ident => $value:expr) => {
        match $crate::CpuPath::current() {
            #[cfg(target_arch = "x86_64")]
            $crate::CpuPath::Avx2 => {
                type $set = $crate::product::instructions::Avx2;
                $value
            }
            #[cfg(target_arch = "x86_64")]
            $crate::CpuPath::Avx512 | $crate::CpuPath::Avx512Bf16 | $crate::CpuPath::Amx => {
                type $set = $crate::product::instructions::Avx512;
                $value
            }
            #[cfg(target_arch = "aarch64")]
            $crate::CpuPath::Neon => {
                type $set = $crate::product::instructions::Neon;
                $value
            }
            _ => {
                type $set = $crate::product::instructions::Portable;
                $value
            }
        }
    };
}
pub(super) use with_instructions;

/// `to[columns, width]` = the transpose of the row-major `[rows, columns]` matrix `from` with row stride `stride`.
/// Columns from `rows` to `width`, a multiple of [`LANES`], are zero.
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
    type Moved = Exact<f32>;
    let extents = (columns, rows, width);
    // SAFETY: the processor has the path; the extents are guaranteed by the caller.
    unsafe { with_instructions!(I => I::pack_columns::<Moved>(extents, from, stride, to)) }
}
