//! YaRN: frequencies of short wavelengths stay, those of long ones are divided by a factor, with a linear ramp between.

use std::f64::consts::TAU;

use super::parse::{FACTOR, Parameters};
use crate::config::keys::{check_f32, fail};
use crate::error::Result;

/// The settings of YaRN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// The factor of long wavelengths.
    pub factor: f64,
    /// Maximum positions before the scaling.
    pub original: usize,
    /// Frequencies with more rotations within `original` are unchanged.
    pub beta_fast: f64,
    /// Frequencies with fewer rotations are divided by the factor.
    pub beta_slow: f64,
    /// Whether the ends of the ramp are rounded outwards to whole pairs.
    pub truncate: bool,
    /// The factor of cosines and sines.
    pub attention_factor: f64,
}

/// `beta_fast` and `beta_slow` if they are absent or 0.
const BETAS: (f64, f64) = (32.0, 1.0);
/// Added to the end of an empty ramp, as in transformers.
const LEAST_RAMP: f64 = 0.001;

impl Yarn {
    /// Reads the settings, for frequencies of base `theta`.
    pub(super) fn parse(parameters: &Parameters<'_>, theta: f64) -> Result<Self> {
        let Parameters { name, object, truncate, .. } = *parameters;
        if theta <= 1.0 {
            return fail(format!("`rope_theta` is {theta}; YaRN needs a base above 1"));
        }
        let original = parameters.original()?;
        let factor = parameters.factor_or_ratio(original)?;
        let beta = |key: &str, default: f64| match object.number(key)?.filter(|beta| *beta != 0.0) {
            Some(beta) => check_f32(key, beta, FACTOR).map(|()| beta),
            None => Ok(default),
        };
        let [mscale, of_all] = [object.number("mscale")?, object.number("mscale_all_dim")?];
        let attention_factor = match (object.number("attention_factor")?, mscale, of_all) {
            (Some(given), _, _) => given,
            (None, Some(mscale), Some(of_all)) if mscale != 0.0 && of_all != 0.0 => {
                magnitude(factor, mscale) / magnitude(factor, of_all)
            }
            _ => magnitude(factor, 1.0),
        };
        // Also of a quotient: a negative `mscale` can make it anything.
        if check_f32("attention_factor", attention_factor, FACTOR).is_err() {
            return fail(format!(
                "`{name}`: the factor of cosines and sines is {attention_factor}; it must be above 0"
            ));
        }
        let (beta_fast, beta_slow) = (beta("beta_fast", BETAS.0)?, beta("beta_slow", BETAS.1)?);
        Ok(Self { factor, original, beta_fast, beta_slow, truncate, attention_factor })
    }

    /// The frequencies 1 / `powers`, scaled. The ramp is computed as in transformers: its ends in f64, the rest in f32.
    pub(super) fn frequencies(&self, powers: impl Iterator<Item = f32>, rotated: usize, theta: f64) -> Vec<f32> {
        // The pair, not necessarily whole, whose frequency makes so many rotations.
        let pair =
            |rotations: f64| rotated as f64 * (self.original as f64 / (rotations * TAU)).ln() / (2.0 * theta.ln());
        let (low, high) = (pair(self.beta_fast), pair(self.beta_slow));
        let (low, high) = if self.truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(rotated as f64 - 1.0));
        let high = if low == high { high + LEAST_RAMP } else { high };
        let scaled = |(i, power): (usize, f32)| {
            let ramp = ((i as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
            let kept = 1.0 - ramp;
            1.0 / (self.factor as f32 * power) * (1.0 - kept) + 1.0 / power * kept
        };
        powers.enumerate().map(scaled).collect()
    }
}

/// The factor of cosines and sines for a factor of wavelengths.
fn magnitude(factor: f64, mscale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rope::{Rope, RopeScaling};

    /// Eight pairs of base 10 000 with 2048 original positions and two limits that are no whole pairs: 4.02 and 7.03.
    #[test]
    fn the_ramp_by_hand() {
        let yarn = |truncate| Yarn {
            factor: 4.0,
            original: 2048,
            beta_fast: 3.2,
            beta_slow: 0.1,
            truncate,
            attention_factor: 1.0,
        };
        let frequencies = |yarn| Rope { scaling: RopeScaling::Yarn(yarn), ..Rope::new(10_000.0) }.frequencies(16);
        let pair = |rotations: f64| 16.0 * (2048.0 / (rotations * TAU)).ln() / (2.0 * 10_000f64.ln());
        for (truncate, low, high) in [(true, pair(3.2).floor(), pair(0.1).ceil()), (false, pair(3.2), pair(0.1))] {
            for (i, found) in frequencies(yarn(truncate)).into_iter().enumerate() {
                let plain = 10_000f64.powf(-(i as f64) / 8.0);
                let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                let expected = plain / 4.0 * ramp + plain * (1.0 - ramp);
                assert!((f64::from(found) - expected).abs() < 1e-6 * expected, "{i}: {found} {expected}");
            }
        }
    }
}
