//! Parses and range-checks numbers of flags and configurations.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

/// Number types with a valid range: `usize` and `f64`.
pub trait Ranged: Copy + PartialOrd + Display {
    /// The type in error messages: "a whole number".
    const KIND: &'static str;
}

impl Ranged for usize {
    const KIND: &'static str = "a whole number";
}

impl Ranged for f64 {
    const KIND: &'static str = "a number";
}

/// The valid values of a number: a range, or a type with its own rule.
pub trait Limits: Clone + Send + Sync + 'static {
    /// The kind of number.
    type Number: Ranged + FromStr;

    /// Whether a number is valid. NaN never is.
    fn allow(&self, number: Self::Number) -> bool;

    /// A description of the valid values: "expected a whole number of at least 1 and at most 9".
    fn expected(&self) -> String;
}

impl<T: Ranged + FromStr + Send + Sync + 'static> Limits for RangeInclusive<T> {
    type Number = T;

    fn allow(&self, number: T) -> bool {
        self.contains(&number)
    }

    fn expected(&self) -> String {
        format!("expected {} of at least {} and at most {}", T::KIND, self.start(), self.end())
    }
}

impl<T: Ranged + FromStr + Send + Sync + 'static> Limits for Range<T> {
    type Number = T;

    fn allow(&self, number: T) -> bool {
        self.contains(&number)
    }

    fn expected(&self) -> String {
        format!("expected {} of at least {} and below {}", T::KIND, self.start, self.end)
    }
}

/// Returns the value if it is within the limits, else a description of the limits.
///
/// ```
/// assert_eq!(spag_io::in_range(7, 1..=9), Ok(7));
/// assert_eq!(spag_io::in_range(0, 1..=9).unwrap_err(), "expected a whole number of at least 1 and at most 9");
/// ```
///
/// # Errors
/// The value is out of range.
pub fn in_range<L: Limits>(value: L::Number, limits: L) -> Result<L::Number, String> {
    if limits.allow(value) { Ok(value) } else { Err(limits.expected()) }
}

/// A parser of a number within limits.
///
/// ```
/// assert_eq!(spag_io::parser(1..=9usize)("7"), Ok(7));
/// ```
pub fn parser<L: Limits>(limits: L) -> impl Fn(&str) -> Result<L::Number, String> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_or_else(|_| Err(limits.expected()), |value| in_range(value, limits.clone()))
}

/// Parses a boolean as `transformers` does: True, t, yes, y, 1 and their opposites, in any case.
///
/// # Errors
/// Any other text.
pub fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "0" => Ok(false),
        _ => Err("expected True or False".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        for text in ["0", "10", "-1", "1.5", "", "1e1", "18446744073709551616", " 3"] {
            assert_eq!(
                parser(1..=9usize)(text).unwrap_err(),
                "expected a whole number of at least 1 and at most 9",
                "{text:?}"
            );
        }
        for text in ["nan", "inf", "-inf", "0.49", "2e308", "x"] {
            assert_eq!(
                parser(0.5..=2.0)(text).unwrap_err(),
                "expected a number of at least 0.5 and at most 2",
                "{text:?}"
            );
        }
        assert_eq!((parser(1..=9usize)("9"), parser(0.5..=2.0)("1.")), (Ok(9), Ok(1.0)));
    }
}
