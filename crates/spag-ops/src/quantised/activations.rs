//! Activations in blocks of 32 8-bit integers with f32 scales, in the layout of the kernels.

use rayon::prelude::*;

use super::format::{BLOCK, Format};
use crate::cpu::SharedMut;
use crate::{pool, simd};

/// A block of R rows, as words that interleave the R rows: [`WORDS`] of four integers, the first in the lowest bits; the
/// initial sum of each part; the scale; the term of minimums.
pub(super) type Tile<const R: usize> = [[i32; R]; TILE];

/// Words of integers of a block.
const WORDS: usize = BLOCK / 4;
/// The initial sum of a part: since codes are unsigned, minus the offset times the sum of the integers.
pub(super) const START: usize = WORDS;
/// max |x| / 127, f32; NaN if a number is not finite, which makes the row's results NaN.
pub(super) const SCALE: usize = WORDS + 2;
/// The scale times the sum of the integers, f32.
pub(super) const TERM: usize = WORDS + 3;
/// Words per block of a row.
const TILE: usize = WORDS + 4;
/// Numbers per task; fewer are quantised on the calling thread.
const CHUNK: usize = 1 << 16;
/// Magnitudes below this are quantised to zero: the inverse of the scale would overflow.
const TINY: f32 = 1e-30;

/// Rows of activations in tiles of `R` rows; the rest in tiles of 8, 4, 2 and 1.
pub(super) struct Activations {
    /// The words' bits, in a pool buffer.
    words: Vec<f32>,
    /// Blocks per row.
    blocks: usize,
    rows: usize,
    most: usize,
}

impl Activations {
    /// Quantises rows of k numbers, a multiple of 32, for kernels with tiles of at most `most` rows. Blocks that share a scale in
    /// the weights' format also share one here.
    pub(super) fn quantise<F: Format>(x: &[f32], k: usize, most: usize) -> Self {
        let (blocks, rows) = (k / BLOCK, x.len().checked_div(k).unwrap_or(0));
        // Every word is written.
        let mut all = Self { words: pool::values(rows * blocks * TILE), blocks, rows, most };
        let to = SharedMut::new(&mut all.words);
        let run = |row: usize| {
            let (first, size) = tile_of(row, rows, most);
            let x = &x[row * k..(row + 1) * k];
            simd::vectorized(
                #[inline(always)]
                || {
                    for (span, x) in x.chunks(F::SPAN * BLOCK).enumerate() {
                        let scale = Scale::of(x);
                        for (block, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
                            let words = scale.block::<F>(x);
                            let at = (first * blocks + (span * F::SPAN + block) * size) * TILE + (row - first);
                            for (index, word) in words.into_iter().enumerate() {
                                // SAFETY: the words of a row are inside the tiles, and belong to this row alone.
                                unsafe { *to.at(at + index * size) = f32::from_bits(word as u32) }
                            }
                        }
                    }
                },
            );
        };
        if x.len() <= CHUNK {
            (0..rows).for_each(run);
        } else {
            (0..rows).into_par_iter().for_each(run);
        }
        all
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes per row.
    pub(super) fn row_bytes(&self) -> usize {
        self.blocks * TILE * size_of::<i32>()
    }

    /// The first row and the number of rows of the tile that contains a row.
    pub(super) fn tile_of(&self, row: usize) -> (usize, usize) {
        tile_of(row, self.rows, self.most)
    }

    /// The tile of R rows that starts at row `first`.
    ///
    /// # Panics
    /// If there is no such tile.
    #[inline(always)]
    pub(super) fn tile<const R: usize>(&self, first: usize) -> &[Tile<R>] {
        let words: &[i32] = bytemuck::cast_slice(&self.words);
        let words = &words[first * self.blocks * TILE..][..R * self.blocks * TILE];
        words.as_chunks::<R>().0.as_chunks::<TILE>().0
    }
}

impl Drop for Activations {
    fn drop(&mut self) {
        pool::give(std::mem::take(&mut self.words));
    }
}

/// The tile of a row: tiles start at multiples of `most`, or at the end of a larger tile.
fn tile_of(row: usize, rows: usize, most: usize) -> (usize, usize) {
    let mut first = row / most * most;
    loop {
        let size = match rows - first {
            left if left >= most => most,
            8.. if most > 8 => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        if row < first + size {
            return (first, size);
        }
        first += size;
    }
}

/// The scale of a quantised block.
#[derive(Clone, Copy)]
struct Scale {
    scale: f32,
    inverse: f32,
}

impl Scale {
    /// The scale of numbers that share one.
    #[inline(always)]
    fn of(x: &[f32]) -> Self {
        // The bit patterns of magnitudes sort like the magnitudes, with infinity and NaN last.
        let largest = f32::from_bits(x.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff)));
        match largest {
            _ if !largest.is_finite() => Self { scale: f32::NAN, inverse: 0.0 },
            _ if largest < TINY => Self { scale: 0.0, inverse: 0.0 },
            _ => Self { scale: largest / 127.0, inverse: 127.0 / largest },
        }
    }

    /// Quantises a block: integers nearest to x / scale, ties to even. The result does not depend on the compiler's choice
    /// of instructions.
    #[inline(always)]
    fn block<F: Format>(self, x: &[f32; BLOCK]) -> [i32; TILE] {
        // Rounds by adding 1.5·2²³, which leaves the integer in the lowest bits.
        const MAGIC: f32 = 12_582_912.0;
        let codes = match self.inverse == 0.0 {
            true => [0; BLOCK],
            false => x.map(|x| (x * self.inverse + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i32),
        };
        let mut words = [0; TILE];
        for (word, codes) in words.iter_mut().zip(codes.as_chunks::<4>().0) {
            *word = i32::from_le_bytes(codes.map(|code| code as u8));
        }
        let sums = [codes[..BLOCK / 2].iter().sum::<i32>(), codes[BLOCK / 2..].iter().sum::<i32>()];
        let starts = if F::PARTS == 1 { [sums[0] + sums[1], 0] } else { sums };
        words[START] = -F::OFFSET * starts[0];
        words[START + 1] = -F::OFFSET * starts[1];
        words[SCALE] = self.scale.to_bits() as i32;
        words[TERM] = (self.scale * (sums[0] + sums[1]) as f32).to_bits() as i32;
        words
    }
}

#[cfg(test)]
impl Activations {
    /// The dequantised numbers of a row.
    pub(super) fn row(&self, row: usize) -> Vec<f64> {
        let (first, size) = self.tile_of(row);
        let words: &[i32] = &bytemuck::cast_slice(&self.words)[first * self.blocks * TILE..];
        let word = |block: usize, index: usize| words[block * size * TILE + index * size + row - first];
        let number = |block: usize, column: usize| {
            let code = word(block, column / 4).to_le_bytes()[column % 4] as i8;
            f64::from(f32::from_bits(word(block, SCALE) as u32)) * f64::from(code)
        };
        (0..self.blocks * BLOCK).map(|at| number(at / BLOCK, at % BLOCK)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{Q4K, Q6K, Q8_0};
    use super::*;

    #[test]
    fn tiles_cover_all_rows() {
        let tiles = |rows: usize, most: usize| {
            let mut found: Vec<(usize, usize)> = (0..rows).map(|row| tile_of(row, rows, most)).collect();
            found.dedup();
            found.into_iter().map(|(_, size)| size).collect::<Vec<_>>()
        };
        assert_eq!(tiles(31, 12), [12, 12, 4, 2, 1]);
        assert_eq!(tiles(23, 12), [12, 8, 2, 1]);
        assert_eq!(tiles(7, 4), [4, 2, 1]);
        assert_eq!(tiles(2, 1), [1, 1]);
    }

    #[test]
    fn integers_are_the_nearest() {
        let k = 256;
        let x: Vec<f32> = (0..5 * k).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.37 * (1.0 + (i / 32) as f32)).collect();
        for (span, all) in [
            (BLOCK, Activations::quantise::<Q8_0>(&x, k, 4)),
            (k, Activations::quantise::<Q4K>(&x, k, 4)),
            (k, Activations::quantise::<Q6K>(&x, k, 1)),
        ] {
            for (row, x) in x.chunks(k).enumerate() {
                for (found, x) in all.row(row).chunks(span).zip(x.chunks(span)) {
                    let largest = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                    for (found, x) in found.iter().zip(x) {
                        let code = (x * (127.0 / largest)).round_ties_even();
                        assert_eq!(*found, f64::from(largest / 127.0) * f64::from(code));
                    }
                }
            }
        }
    }

    fn words<F: Format>(x: &[f32], k: usize) -> Vec<i32> {
        bytemuck::cast_slice(&Activations::quantise::<F>(x, k, 1).words).to_vec()
    }

    #[test]
    fn words_hold_sums_and_scales() {
        let x: Vec<f32> = (0..BLOCK).map(|i| i as f32 - 20.0).collect();
        let codes = x.iter().map(|x| (x * (127.0f32 / 20.0)).round_ties_even() as i32);
        let (first, second) = (codes.clone().take(16).sum::<i32>(), codes.skip(16).sum::<i32>());
        let found = words::<Q8_0>(&x, BLOCK);
        assert_eq!(found[START..START + 2], [-128 * (first + second), 0]);
        let term = 20.0f32 / 127.0 * (first + second) as f32;
        assert_eq!(found[SCALE..], [(20.0f32 / 127.0).to_bits() as i32, term.to_bits() as i32]);
        let found = words::<Q6K>(&x.repeat(8), 256);
        assert_eq!(found[START..START + 2], [-32 * first, -32 * second]);
    }

    #[test]
    fn numbers_that_are_not_finite_leave_a_scale_of_nan() {
        let scale = |value: f32| Scale::of(&[[1.0; BLOCK - 1].as_slice(), &[value]].concat()).scale;
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(scale(value).is_nan());
        }
        assert!(scale(f32::MAX).is_finite());
        assert!(words::<Q8_0>(&[1e-38; BLOCK], BLOCK).iter().all(|word| *word == 0));
    }
}
