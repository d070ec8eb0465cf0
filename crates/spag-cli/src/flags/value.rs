//! Parsers of flag values.

use std::ops::RangeInclusive;

pub use spag_io::{parser as within, truth};

/// A whole number of at least 1.
///
/// # Errors
/// Any other text.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

/// Threads of a program.
pub const THREADS: RangeInclusive<usize> = 1..=4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_accepts_the_spellings_of_transformers() {
        for text in ["True", "true", "TRUE", "1", "yes", "Y", "t"] {
            assert_eq!(truth(text), Ok(true), "{text}");
        }
        for text in ["False", "false", "0", "no", "N", "F"] {
            assert_eq!(truth(text), Ok(false), "{text}");
        }
        assert!(truth("maybe").is_err() && truth("").is_err());
    }

    #[test]
    fn numbers_in_python_notation_are_accepted() {
        let (above, from) = (within(1e-9..=100.0), within(0.0..=100.0));
        assert_eq!((above("5e-6"), above("1."), from("0.")), (Ok(5e-6), Ok(1.0), Ok(0.0)));
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        assert!(["0", "-1", "inf", "nan", "x", ""].iter().all(|text| within(1e-9..=100.0)(text).is_err()));
        assert!(["-0.1", "inf"].iter().all(|text| within(0.0..=100.0)(text).is_err()));
        let share = within(0.0..=1.0);
        assert!(["-0.1", "1.1", "nan"].iter().all(|text| share(text).is_err()) && share("1").is_ok());
        assert!(["0", "-1", "1.5"].iter().all(|text| count(text).is_err()) && count("8") == Ok(8));
    }
}
