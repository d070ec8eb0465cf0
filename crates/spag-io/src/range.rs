//! Numbers of flags and configurations with their valid ranges.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Kinds of numbers that have a range: `usize` and `f64`.
pub trait Ranged: Copy + PartialOrd + Display {
    /// The kind in an error: "a whole number".
    const KIND: &'static str;
}

impl Ranged for usize {
    const KIND: &'static str = "a whole number";
}

impl Ranged for f64 {
    const KIND: &'static str = "a number";
}

/// The value if it is in the range, else which values are. NaN is in no range.
///
/// ```
/// assert_eq!(spag_io::in_range(7, 1..=9), Ok(7));
/// assert_eq!(spag_io::in_range(0, 1..=9).unwrap_err(), "expected a whole number of at least 1 and at most 9");
/// ```
///
/// # Errors
/// The values that are expected.
pub fn in_range<T: Ranged>(value: T, range: RangeInclusive<T>) -> Result<T, String> {
    if range.contains(&value) { Ok(value) } else { Err(expected(range)) }
}

/// [`in_range`] for a number as text.
///
/// # Errors
/// The values that are expected.
pub fn parse_in_range<T: Ranged + std::str::FromStr>(text: &str, range: RangeInclusive<T>) -> Result<T, String> {
    match text.parse() {
        Ok(value) => in_range(value, range),
        Err(_) => Err(expected(range)),
    }
}

fn expected<T: Ranged>(range: RangeInclusive<T>) -> String {
    format!("expected {} of at least {} and at most {}", T::KIND, range.start(), range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        for text in ["0", "10", "-1", "1.5", "", "1e1", "18446744073709551616", " 3"] {
            assert_eq!(
                parse_in_range(text, 1..=9usize).unwrap_err(),
                "expected a whole number of at least 1 and at most 9",
                "{text:?}"
            );
        }
        for text in ["nan", "inf", "-inf", "0.49", "2e308", "x"] {
            assert_eq!(
                parse_in_range(text, 0.5..=2.0).unwrap_err(),
                "expected a number of at least 0.5 and at most 2",
                "{text:?}"
            );
        }
        assert_eq!((parse_in_range("9", 1..=9usize), parse_in_range("1.", 0.5..=2.0)), (Ok(9), Ok(1.0)));
    }
}
