//! Values of flags and configurations, with their valid ranges.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};

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

/// The range of a setting as a type, so that flags and files have the same one. [`ranges!`](crate::ranges) declares it.
///
/// ```
/// use spag_io::Range as _;
///
/// spag_io::ranges! {
///     /// Turns of a game.
///     Turns: usize = 1..=1000;
/// }
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Settings {
///     #[serde(deserialize_with = "Turns::read")]
///     turns: Option<usize>,
/// }
/// let settings: Settings = serde_json::from_str(r#"{"turns": 5}"#).unwrap();
/// assert_eq!(settings.turns, Some(5));
/// let error = serde_json::from_str::<Settings>(r#"{"turns": 0}"#).unwrap_err().to_string();
/// assert!(error.starts_with("expected a whole number of at least 1 and at most 1000, not 0"));
/// assert_eq!(Turns::parse("0").unwrap_err(), "expected a whole number of at least 1 and at most 1000");
/// ```
pub trait Range {
    /// The kind of number.
    type Number: Ranged + FromStr;
    /// The least and the largest value.
    const RANGE: RangeInclusive<Self::Number>;

    /// The value if it is valid. A range with exceptions has its own.
    ///
    /// # Errors
    /// The values that are expected.
    fn check(value: Self::Number) -> Result<Self::Number, String> {
        in_range(value, Self::RANGE)
    }

    /// The parser of a flag.
    ///
    /// # Errors
    /// The values that are expected.
    fn parse(text: &str) -> Result<Self::Number, String> {
        match text.parse() {
            Ok(value) => Self::check(value),
            // Words such as "x" get the same answer as numbers out of range.
            Err(_) => parse_in_range(text, Self::RANGE),
        }
    }

    /// The reader of a setting of a file, a number or an optional one: `#[serde(deserialize_with = "Turns::read")]`.
    ///
    /// # Errors
    /// Another type, or a number out of the range.
    fn read<'de, D: Deserializer<'de>, T: Setting<Self::Number>>(deserializer: D) -> Result<T, D::Error> {
        let setting = T::deserialize(deserializer)?;
        match setting.number().map(|number| (number, Self::check(number))) {
            Some((number, Err(expected))) => Err(D::Error::custom(format_args!("{expected}, not {number}"))),
            _ => Ok(setting),
        }
    }
}

/// A number, or an optional one.
pub trait Setting<N>: DeserializeOwned {
    /// The number, if there is one.
    fn number(&self) -> Option<N>;
}

impl<N: Ranged + DeserializeOwned> Setting<N> for N {
    fn number(&self) -> Option<N> {
        Some(*self)
    }
}

impl<N: Ranged + DeserializeOwned> Setting<N> for Option<N> {
    fn number(&self) -> Option<N> {
        *self
    }
}

/// Declares types that are a [`Range`]: `Name: usize = 1..=9;`.
#[macro_export]
macro_rules! ranges {
    ($($(#[$doc:meta])* $name:ident: $number:ty = $range:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl $crate::Range for $name {
            type Number = $number;
            const RANGE: ::std::ops::RangeInclusive<$number> = $range;
        }
    )* };
}

/// A truth value as `transformers` accepts it: True, t, yes, y, 1 and their opposites, in any case.
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

/// Checks settings that were not read from a file or a command line as if they were.
///
/// # Errors
/// The name of the invalid setting and what is wrong with it.
pub fn check_settings<T: Serialize + DeserializeOwned>(settings: &T) -> Result<(), (&'static str, String)> {
    let read = serde_json::to_value(settings).map_err(|error| ("", error.to_string()))?;
    match serde_path_to_error::deserialize::<_, T>(read) {
        Ok(_) => Ok(()),
        Err(error) => {
            let path = error.path().to_string();
            let name = field_names::<T>().iter().find(|name| **name == path).copied();
            Err((name.unwrap_or_default(), error.into_inner().to_string()))
        }
    }
}

/// The names of the fields that a struct is read from.
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Point {
///     x: f64,
///     #[serde(rename = "height")]
///     y: f64,
/// }
/// assert_eq!(spag_io::field_names::<Point>(), ["x", "height"]);
/// ```
pub fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It always fails, once it has the names.
    let _ = T::deserialize(Names(&mut names));
    names
}

/// A source of values that only notes which fields are asked for.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(Self::Error::custom("only names are read"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
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
