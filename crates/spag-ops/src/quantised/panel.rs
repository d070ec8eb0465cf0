//! Panels of 16 rows of weights: register lanes are rows, so that sums stay in their lanes.
//!
//! A block of a panel has 8 groups of 4 consecutive columns; byte 4·row + i of a cache line is column i of a group. With 8-bit codes,
//! a group is a line. With fewer bits, line l holds the low four bits of groups l and l + 4 in the low and high halves of its bytes.
//! A fifth bit is bit g, for group g, of the bytes of one additional line; two more bits are bits 2·(g % 4) and the next one of line
//! g / 4 of two additional lines.

use super::format::{BLOCK, Format};
use super::span::Span;

/// Rows of weights in a panel.
pub(super) const PANEL: usize = 16;
/// Groups per block.
pub(super) const GROUPS: usize = BLOCK / 4;
/// Lines of the low four bits.
pub(super) const LOW: usize = GROUPS / 2;

/// A cache line of codes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

impl Line {
    pub(super) const ZERO: Self = Self([0; 64]);
}

/// A panel: the lines of its blocks and the scales of its spans.
pub(super) struct Panel<'a, F: Format> {
    pub(super) lines: &'a [Line],
    pub(super) scales: &'a [F::Scales],
}

impl<F: Format> Clone for Panel<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Format> Copy for Panel<'_, F> {}

impl<'a, F: Format> Panel<'a, F> {
    /// Scales of each span with the lines of its blocks.
    #[inline(always)]
    pub(super) fn spans(self) -> impl Iterator<Item = (&'a F::Scales, &'a [Line])> {
        self.scales.iter().zip(self.lines.chunks_exact(F::BITS * F::SPAN))
    }

    /// The codes of a row of a block.
    #[inline(always)]
    pub(super) fn codes(lines: &[Line], row: usize) -> [u8; BLOCK] {
        // The four codes of a group at once.
        let word = |line: usize| {
            let bytes = &lines[line].0[4 * row..4 * row + 4];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let mut codes = [0; BLOCK];
        for (group, codes) in codes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let low = || word(group % LOW) >> (4 * (group / LOW)) & 0x0f0f_0f0f;
            let four = match F::BITS {
                8 => word(group),
                5 => low() | (word(LOW) >> group & 0x0101_0101) << 4,
                6 => low() | (word(LOW + group / 4) >> (2 * (group % 4)) & 0x0303_0303) << 4,
                _ => low(),
            };
            *codes = four.to_le_bytes();
        }
        codes
    }

    /// Writes the codes of a row to the lines of a span, which must be zero there.
    pub(super) fn write(span: &Span, row: usize, lines: &mut [Line]) {
        for (lines, codes) in lines.chunks_exact_mut(F::BITS).zip(span.codes.chunks_exact(BLOCK)) {
            for (column, code) in codes.iter().enumerate() {
                let (group, byte) = (column / 4, row * 4 + column % 4);
                if F::BITS == 8 {
                    lines[group].0[byte] = *code;
                    continue;
                }
                lines[group % LOW].0[byte] |= (code & 15) << (4 * (group / LOW));
                match F::BITS {
                    5 => lines[LOW].0[byte] |= (code >> 4) << group,
                    6 => lines[LOW + group / 4].0[byte] |= (code >> 4) << (2 * (group % 4)),
                    _ => {}
                }
            }
        }
    }
}
