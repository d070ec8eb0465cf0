//! AMX tile register instructions.
//!
//! Registers 0 to 3 hold sums. The compiler does not use tile registers, so they keep their values between calls of
//! these functions on one thread.

use std::arch::asm;

use half::bf16;

use super::TILE_ROWS;

/// Bytes between consecutive pairs of steps of a right operand whose steps are `row` elements apart.
fn pair_bytes(row: usize) -> usize {
    2 * row * size_of::<bf16>()
}

/// The rows of the left operand, by tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// In tile 4.
    One(u8),
    /// In tile 4 (full) and tile 5.
    Two(u8),
}

/// The memory that `LDTILECFG` reads.
#[repr(C, align(64))]
pub(super) struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// All tiles have rows of 64 bytes.
    pub(super) fn new(shape: Shape) -> Self {
        let full = TILE_ROWS as u8;
        let used = match shape {
            Shape::One(rows) => [rows, rows, rows, rows, rows, full, full, full],
            Shape::Two(rows) => [full, full, rows, rows, full, rows, full, full],
        };
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        row_bytes[..used.len()].fill(64);
        rows[..used.len()].copy_from_slice(&used);
        Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }

    /// Configures the tiles of this thread and zeroes them.
    ///
    /// # Safety
    /// The processor must support tiles, and the process must be permitted to use them.
    pub(super) unsafe fn load(&self) {
        // SAFETY: guaranteed by the caller; 64 bytes are read.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, preserves_flags, readonly)) }
    }
}

/// Releases the tiles of this thread, so that the system need not save them.
///
/// # Safety
/// As [`Config::load`].
pub(super) unsafe fn release() {
    // SAFETY: guaranteed by the caller.
    unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) }
}

/// Zeroes the sums.
///
/// # Safety
/// The tiles must be configured.
#[inline(always)]
pub(super) unsafe fn zero() {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, preserves_flags));
    }
}

/// Adds the products of a block: the rows of tile 4 by 32 columns.
///
/// # Safety
/// The shape must be [`Shape::One`]; `a` must have its rows, `row` elements apart, and `b` the columns of a block, with steps
/// `b_row` elements apart.
#[inline(always)]
pub(super) unsafe fn add_one_by_two(a: *const bf16, row: usize, b: *const bf16, b_row: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {a_row}*1]",
            "tileloadd tmm6, [{b} + {b_row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {b_row}*1 + 64]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            a = in(reg) a,
            a_row = in(reg) row * size_of::<bf16>(),
            b = in(reg) b,
            b_row = in(reg) pair_bytes(b_row),
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Adds the products of a block: the rows of tiles 4 and 5 by 32 columns.
///
/// # Safety
/// The shape must be [`Shape::Two`]; each `a` must have the rows of its tile, `row` elements apart, and `b` the columns of a
/// block, with steps `b_row` elements apart.
#[inline(always)]
pub(super) unsafe fn add_two_by_two(a: [*const bf16; 2], row: usize, b: *const bf16, b_row: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tileloadd tmm4, [{upper} + {a_row}*1]",
            "tileloadd tmm6, [{b} + {b_row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {b_row}*1 + 64]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{lower} + {a_row}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            upper = in(reg) a[0],
            lower = in(reg) a[1],
            a_row = in(reg) row * size_of::<bf16>(),
            b = in(reg) b,
            b_row = in(reg) pair_bytes(b_row),
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Loads the sums of the upper rows, which are `row` floats apart: tiles 0 and 1.
///
/// # Safety
/// The rows of the tiles must be readable at the address.
#[inline(always)]
pub(super) unsafe fn load_upper(at: *const f32, row: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tileloadd tmm0, [{at} + {row}*1 + 0]",
            "tileloadd tmm1, [{at} + {row}*1 + 64]",
            at = in(reg) at,
            row = in(reg) row * size_of::<f32>(),
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Loads the sums of the lower rows, which are `row` floats apart: tiles 2 and 3.
///
/// # Safety
/// The rows of the tiles must be readable at the address.
#[inline(always)]
pub(super) unsafe fn load_lower(at: *const f32, row: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tileloadd tmm2, [{at} + {row}*1 + 0]",
            "tileloadd tmm3, [{at} + {row}*1 + 64]",
            at = in(reg) at,
            row = in(reg) row * size_of::<f32>(),
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Stores the sums of the upper rows, `row` floats apart.
///
/// # Safety
/// The rows of the tiles must be writable at the address.
#[inline(always)]
pub(super) unsafe fn store_upper(at: *mut f32, row: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tilestored [{at} + {row}*1 + 0], tmm0",
            "tilestored [{at} + {row}*1 + 64], tmm1",
            at = in(reg) at,
            row = in(reg) row * size_of::<f32>(),
            options(nostack, preserves_flags)
        );
    }
}

/// Stores the sums of the lower rows, `row` floats apart.
///
/// # Safety
/// The rows of the tiles must be writable at the address.
#[inline(always)]
pub(super) unsafe fn store_lower(at: *mut f32, row: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tilestored [{at} + {row}*1 + 0], tmm2",
            "tilestored [{at} + {row}*1 + 64], tmm3",
            at = in(reg) at,
            row = in(reg) row * size_of::<f32>(),
            options(nostack, preserves_flags)
        );
    }
}
