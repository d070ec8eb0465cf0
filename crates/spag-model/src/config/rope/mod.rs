//! RoPE frequencies.

mod longrope;
mod parse;
mod yarn;

use super::keys::fail;
use crate::error::Result;

pub use longrope::LongRope;
pub(super) use longrope::of_phi3;
pub(super) use parse::{RopeDefaults, of_kinds};
pub use yarn::Yarn;

/// RoPE: base of the frequencies, their scaling, and the part of a head that is rotated.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies, θ: 1 / θ^(2i / rotated elements).
    pub theta: f64,
    /// Frequency scaling for longer contexts.
    pub scaling: RopeScaling,
    /// The part of a head's elements that is rotated: the first of them.
    pub partial: f64,
}

/// Scaling of RoPE frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies are divided by a factor, as if positions were.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3.1: frequencies of long wavelengths are divided by the factor, short ones are unchanged, and those
    /// between are blended.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `original / low_freq_factor` are long.
        low_freq_factor: f64,
        /// Wavelengths below `original / high_freq_factor` are short.
        high_freq_factor: f64,
        /// Maximum positions before the scaling.
        original: usize,
    },
    /// YaRN (Peng et al. 2023).
    Yarn(Yarn),
    /// LongRoPE (Ding et al. 2024).
    LongRope(LongRope),
}

impl Rope {
    /// Unscaled, of whole heads, with base `theta`.
    pub fn new(theta: f64) -> Self {
        Self { theta, scaling: RopeScaling::None, partial: 1.0 }
    }

    /// The number of a head's elements that the frequencies are made for. If odd, one more is rotated.
    pub fn rotated(&self, head_dim: usize) -> usize {
        (head_dim as f64 * self.partial) as usize
    }

    /// Checks the rotated part of heads of this size.
    pub(super) fn check(&self, head_dim: usize) -> Result<()> {
        let rotated = self.rotated(head_dim);
        if rotated == 0 {
            return fail(format!("`partial_rotary_factor` is {}: no element of a head is rotated", self.partial));
        }
        match &self.scaling {
            RopeScaling::LongRope(long) => long.check(rotated.div_ceil(2)),
            _ => Ok(()),
        }
    }

    /// The frequency of each rotated pair of a head's elements, in f32 as in transformers: with LongRoPE, for sequences that
    /// are not long.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let (rotated, powers) = (self.rotated(head_dim), self.powers(head_dim));
        match &self.scaling {
            RopeScaling::None => powers.map(|power| 1.0 / power).collect(),
            RopeScaling::Linear { factor } => powers.map(|power| 1.0 / power / *factor as f32).collect(),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original } => {
                let limits = (*low_freq_factor as f32, *high_freq_factor as f32, *original as f32);
                powers.map(|power| llama3(1.0 / power, *factor as f32, limits)).collect()
            }
            RopeScaling::Yarn(yarn) => yarn.frequencies(powers, rotated, self.theta),
            RopeScaling::LongRope(long) => longrope::divided(powers, &long.short),
        }
    }

    /// The frequencies for long sequences, if they have other ones.
    pub fn long_frequencies(&self, head_dim: usize) -> Option<Vec<f32>> {
        let RopeScaling::LongRope(long) = &self.scaling else { return None };
        Some(longrope::divided(self.powers(head_dim), &long.long))
    }

    /// The length in tokens after which a sequence is long: all of its tokens then have the other frequencies.
    pub fn long_after(&self) -> Option<usize> {
        match &self.scaling {
            RopeScaling::LongRope(long) => Some(long.original),
            _ => None,
        }
    }

    /// θ^(2i / rotated elements) of each pair.
    fn powers(&self, head_dim: usize) -> impl Iterator<Item = f32> {
        let (rotated, theta) = (self.rotated(head_dim), self.theta as f32);
        (0..rotated.div_ceil(2)).map(move |i| theta.powf((2 * i) as f32 / rotated as f32))
    }

    /// The factor of cosines and sines.
    pub fn factor(&self) -> f64 {
        match &self.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor,
            RopeScaling::LongRope(long) => long.attention_factor,
            RopeScaling::None | RopeScaling::Linear { .. } | RopeScaling::Llama3 { .. } => 1.0,
        }
    }
}

/// A frequency scaled as in Llama 3.1.
fn llama3(frequency: f32, factor: f32, (low, high, original): (f32, f32, f32)) -> f32 {
    let wavelength = std::f32::consts::TAU / frequency;
    if wavelength < original / high {
        frequency
    } else if wavelength > original / low {
        frequency / factor
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wavelengths 2π, 2π·10, 2π·100 and 2π·1000 with limits 16 and 64: the second is blended.
    #[test]
    fn llama3_scaling_by_hand() {
        let found: Vec<f32> =
            [1.0, 0.1, 0.01, 0.001].map(|frequency| llama3(frequency, 8.0, (1.0, 4.0, 64.0))).to_vec();
        let smooth = (6.4 / std::f64::consts::TAU - 1.0) / 3.0;
        let blended = (1.0 - smooth) * 0.1 / 8.0 + smooth * 0.1;
        for (found, expected) in found.iter().zip([1.0, blended, 0.01 / 8.0, 0.001 / 8.0]) {
            assert!((f64::from(*found) - expected).abs() < 1e-7 * expected, "{found} {expected}");
        }
    }

    /// Six of eight elements make three frequencies; an odd number makes one for the last element too.
    #[test]
    fn partial_rotations_have_fewer_frequencies() {
        let rope = |partial| Rope { partial, ..Rope::new(64.0) };
        let found = rope(0.75).frequencies(8);
        let expected = [1.0, 1.0 / 4.0, 1.0 / 16.0];
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
        assert_eq!(found.len(), 3);
        assert_eq!(rope(0.7).frequencies(8).len(), 3);
    }
}
