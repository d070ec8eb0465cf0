//! Numbers of which one was written as a decimal: the same if they round to the same.
//!
//! They are rounded to six decimals, as in math-verify. Six decimals leave fewer than four digits of a number below 0.001, and none
//! of `8.5\times 10^{-12}`: such numbers are rounded to six significant digits.

use num_bigint::BigInt;
use num_complex::Complex64;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};

/// Decimals of a number that is not small, and significant digits of a small one.
const DIGITS: i32 = 6;
/// Decimals with a digit that is not 0, without which a number is small.
const FEWEST: i32 = 3;

/// Whether two numbers round to the same.
pub(crate) fn same(a: &BigRational, b: &BigRational) -> bool {
    // What is near a whole number is not that number.
    if a.is_integer() || b.is_integer() {
        return a == b;
    }
    let largest = if a.abs() > b.abs() { a.abs() } else { b.abs() };
    let (over, under) = (largest.numer(), largest.denom());
    let mut decimals = DIGITS;
    if over * tens(FEWEST) < *under {
        // Within one of the digits, since a number of n bits is between 2^(n-1) and 2^n.
        let bits = under.bits().saturating_sub(over.bits());
        decimals = DIGITS - 1 + (bits as f64 * std::f64::consts::LOG10_2).to_i32().unwrap_or(0);
        while over * tens(decimals) < under * tens(DIGITS - 1) {
            decimals += 1;
        }
    }
    let scale = tens(decimals);
    // Without fractions, whose common divisors take long. Halves are rounded away from 0.
    let rounded = |value: &BigRational| {
        let (over, under) = (value.numer().abs() * &scale * 2, value.denom());
        (over + under) / (under * 2) * value.numer().signum()
    };
    rounded(a) == rounded(b)
}

fn tens(power: i32) -> BigInt {
    BigInt::from(10).pow(power.unsigned_abs())
}

/// Whether both parts of two numbers round to the same.
pub(crate) fn same_complex(a: Complex64, b: Complex64) -> bool {
    let largest = a.norm().max(b.norm());
    let is_small = largest > 0.0 && largest < 10_f64.powi(-FEWEST);
    let decimals = if is_small { f64::from(DIGITS - 1) - largest.log10().floor() } else { f64::from(DIGITS) };
    let round = |value: f64| (value * 10_f64.powf(decimals)).round();
    round(a.re) == round(b.re) && round(a.im) == round(b.im)
}
