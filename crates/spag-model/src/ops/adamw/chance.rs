//! Rounding by chance: random bits that are a function of seed, step and element.

use half::bf16;

/// An odd number that spreads neighbouring elements over all of u64: 2⁶⁴ divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit of the result depends on every bit of `z`.
fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the random bits of a step follow from.
pub(super) fn key(seed: u64, step: u64) -> u64 {
    mixed(mixed(seed.wrapping_add(SPREAD)) ^ step.wrapping_mul(SPREAD))
}

/// `x` rounded to one of its two neighbours in bf16, to the farther one the more seldom the farther it is, so that the
/// mean over random bits is `x`: sixteen random bits are added to those that are cut off.
pub(super) fn rounded_by_chance(x: f32, key: u64, element: u64) -> bf16 {
    if !x.is_finite() {
        return bf16::from_f32(x);
    }
    let chance = (mixed(key.wrapping_add(element.wrapping_mul(SPREAD))) >> 48) as u32;
    bf16::from_bits((x.to_bits().wrapping_add(chance) >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_by_chance_is_right_on_average() {
        // The neighbours of 1 + 1/512 in bf16 are 1 and 1 + 1/128: a quarter of the way.
        let (x, count) = (1.0 + 1.0 / 512.0, 100_000u64);
        for sign in [1.0, -1.0] {
            let up = (0..count).filter(|i| rounded_by_chance(sign * x, key(7, 3), *i).to_f32().abs() > 1.0).count();
            // Five standard deviations.
            assert!((up as f64 / count as f64 - 0.25).abs() < 5.0 * (0.25 * 0.75 / count as f64).sqrt(), "{up}");
        }
        assert_eq!(rounded_by_chance(1.5, key(7, 3), 0).to_f32(), 1.5, "what bf16 holds stays as it is");
        assert_eq!(rounded_by_chance(f32::INFINITY, 1, 0), bf16::INFINITY);
        assert!(rounded_by_chance(f32::NAN, 1, 0).is_nan());
    }
}
