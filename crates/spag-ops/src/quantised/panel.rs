//! Panels of 16 rows of weights: the lanes of a register are the rows, so that sums stay in their lanes.
//!
//! A block of a panel has 8 groups of 4 consecutive columns. A group of Q8_0 is a cache line: byte 4·row + i is column i of the
//! group. A line of Q4_0 is two groups, l in the low and l + 4 in the high halves of the bytes.

use super::blocks::{BLOCK, Block, Codes};

/// Rows of weights in a panel.
pub(super) const PANEL: usize = 16;
/// Groups in the low halves of the lines of Q4_0.
pub(super) const HALF: usize = BLOCK / 8;

/// A cache line of codes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

impl Line {
    pub(super) const ZERO: Self = Self([0; 64]);
}

/// Scales of a block of each row, the bits of f16.
pub(super) type Scales = [u16; PANEL];

/// A panel: the lines and the scales of its blocks.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    pub(super) lines: &'a [Line],
    pub(super) scales: &'a [Scales],
}

impl<'a> Panel<'a> {
    /// The blocks, in order.
    #[inline(always)]
    pub(super) fn blocks<F: Codes>(self) -> impl Iterator<Item = (&'a [Line], &'a Scales)> {
        self.lines.chunks_exact(F::LINES).zip(self.scales)
    }

    /// The line and the byte of a column of a row, and whether it is in the high half.
    #[inline(always)]
    fn place<F: Codes>(row: usize, column: usize) -> (usize, usize, Half) {
        let (group, byte) = (column / 4, row * 4 + column % 4);
        match F::LINES > HALF {
            true => (group, byte, Half::Both),
            false if group < HALF => (group, byte, Half::Low),
            false => (group - HALF, byte, Half::High),
        }
    }

    /// The code of a column of a row of a block.
    #[inline(always)]
    pub(super) fn code<F: Codes>(lines: &[Line], row: usize, column: usize) -> u8 {
        let (line, byte, half) = Self::place::<F>(row, column);
        let byte = lines[line].0[byte];
        match half {
            Half::Both => byte,
            Half::Low => byte & 15,
            Half::High => byte >> 4,
        }
    }

    /// Writes a row of a block to its lines, which are zero, and its scale.
    pub(super) fn write<F: Codes>(block: &Block, row: usize, lines: &mut [Line], scales: &mut Scales) {
        scales[row] = block.scale.to_bits();
        for (column, code) in block.codes.iter().enumerate() {
            let (line, byte, half) = Self::place::<F>(row, column);
            let code = if half == Half::High { code << 4 } else { *code };
            lines[line].0[byte] |= code;
        }
    }
}

/// The part of a byte that a code has.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    Both,
    Low,
    High,
}
