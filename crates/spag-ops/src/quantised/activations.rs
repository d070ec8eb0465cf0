//! Activations in blocks of 32 numbers of 8 bits, with scales in f32.

use rayon::prelude::*;

use super::blocks::BLOCK;
use crate::simd;

/// Words of a block: four numbers of 8 bits each, the first in the lowest bits.
pub(super) const WORDS: usize = BLOCK / 4;
/// Blocks per task; fewer are quantised on the calling thread.
const CHUNK: usize = 1 << 11;
/// A largest magnitude below this is zero: the inverse of its scale would be infinite.
const TINY: f32 = 1e-30;

/// A block of activations: number i is `scale` times an integer from -127 to 127.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Activations {
    /// The integers.
    pub(super) words: [i32; WORDS],
    /// max |x| / 127; NaN if a number of the block is not finite, so that the row's results are NaN.
    pub(super) scale: f32,
    /// Sum of the integers.
    pub(super) sum: i32,
}

impl Activations {
    const ZERO: Self = Self { words: [0; WORDS], scale: 0.0, sum: 0 };

    /// Quantises a block, halves to even. The bits do not depend on the instructions that the compiler chooses.
    #[inline(always)]
    fn of(x: &[f32; BLOCK]) -> Self {
        // Bits of magnitudes are ordered as the magnitudes are, with infinity and NaN after all numbers.
        let largest = f32::from_bits(x.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff)));
        if !largest.is_finite() {
            return Self { scale: f32::NAN, ..Self::ZERO };
        }
        if largest < TINY {
            return Self::ZERO;
        }
        let inverse = 127.0 / largest;
        // Rounds by adding 1.5·2²³, which leaves the integer in the lowest bits.
        const MAGIC: f32 = 12_582_912.0;
        let codes = x.map(|x| (x * inverse + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i32);
        let mut words = [0; WORDS];
        for (word, codes) in words.iter_mut().zip(codes.as_chunks::<4>().0) {
            *word = i32::from_le_bytes(codes.map(|code| code as u8));
        }
        Self { words, scale: largest / 127.0, sum: codes.iter().sum() }
    }

    /// Integer `index`.
    #[inline(always)]
    pub(super) fn code(&self, index: usize) -> i32 {
        i32::from(self.words[index / 4].to_le_bytes()[index % 4] as i8)
    }
}

/// Quantises rows of a multiple of 32 numbers, one block after the other.
pub(super) fn quantise(x: &[f32]) -> Vec<Activations> {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let mut quantised = vec![Activations::ZERO; blocks.len()];
    let run = |to: &mut [Activations], from: &[[f32; BLOCK]]| {
        simd::vectorized(
            #[inline(always)]
            || to.iter_mut().zip(from).for_each(|(to, from)| *to = Activations::of(from)),
        );
    };
    if blocks.len() <= CHUNK {
        run(&mut quantised, blocks);
    } else {
        quantised.par_chunks_mut(CHUNK).zip(blocks.par_chunks(CHUNK)).for_each(|(to, from)| run(to, from));
    }
    quantised
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_the_nearest() {
        let x: Vec<f32> = (0..5 * BLOCK).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.37).collect();
        for (block, x) in quantise(&x).iter().zip(x.chunks(BLOCK)) {
            let largest = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            assert_eq!(block.scale, largest / 127.0);
            for (i, x) in x.iter().enumerate() {
                assert_eq!(block.code(i), (x * (127.0 / largest)).round_ties_even() as i32);
            }
            assert_eq!(block.sum, (0..BLOCK).map(|i| block.code(i)).sum::<i32>());
        }
    }

    #[test]
    fn numbers_that_are_not_finite_leave_a_scale_of_nan() {
        let with = |value: f32| quantise(&[[1.0; BLOCK - 1].as_slice(), &[value]].concat())[0];
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(with(value).scale.is_nan());
        }
        assert!(with(f32::MAX).scale.is_finite() && with(f32::MAX).code(BLOCK - 1) == 127);
        assert_eq!(quantise(&[1e-38; BLOCK])[0], Activations::ZERO);
    }
}
