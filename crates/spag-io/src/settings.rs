//! Settings of flags and configuration files, each declared once.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use crate::declared::Declared;
use crate::range::{Limits, in_range};

/// Whether a setting has the default of its type and is omitted from files, for `#[serde(skip_serializing_if)]`.
pub fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// Reads a number or a text as the text of it: for settings such as `5`, `"5GB"` and `"auto"`.
///
/// # Errors
/// Neither a whole number nor a text.
pub fn number_or_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    Ok(match serde::Deserialize::deserialize(deserializer)? {
        Written::Number(number) => number.to_string(),
        Written::Text(text) => text,
    })
}

/// Declares structs of settings: each field with its documentation, which is the help of its flag, its type, the limits of
/// its number in brackets and its default.
///
/// Every struct has [`Default`], [`Settings`], and `Serialize` and `Deserialize` of serde. Unknown keys and numbers beyond
/// their limits are errors, and settings that are absent have their defaults. In structs of the kind `flags`, which derive
/// `clap::Args`, the flags have the names, limits and defaults of the settings; `#[arg(…)]` adds to them or replaces them. The settings of
/// the structs after `+` are read from the same table, and their flags from the same command line. A key other than the field's name is
/// written `field as "key"`.
///
/// ```
/// spag_io::settings! {
///     /// How long completions are.
///     pub table Length {
///         /// Maximum number of tokens.
///         pub max_new_tokens: usize [1..=1_048_576] = 256;
///     }
///
///     /// The games of a run.
///     pub table Play {
///         /// Number of games; all if absent.
///         pub games: Option<usize> [1..=1000];
///     } + {
///         /// Tokens of an utterance.
///         pub length: Length;
///     }
/// }
/// let play: Play = serde_json::from_str(r#"{"games": 7, "max_new_tokens": 9}"#).unwrap();
/// assert_eq!((play.games, play.length.max_new_tokens), (Some(7), 9));
/// let error = |text| serde_json::from_str::<Play>(text).unwrap_err().to_string();
/// assert!(error(r#"{"games": 0}"#).contains("expected a whole number of at least 1 and at most 1000, not 0"));
/// assert!(error(r#"{"game": 1}"#).contains("unknown field `game`, expected one of `games`, `max_new_tokens`"));
/// ```
#[macro_export]
macro_rules! settings {
    ($(
        $(#[$meta:meta])*
        $vis:vis $kind:ident $name:ident $(($expecting:literal))? { $(
            $(#[$($field_meta:tt)*])*
            $field_vis:vis $field:ident $(as $key:literal)?: $type:ty $([$limits:expr])? $(= $default:expr)?;
        )* } $(+ { $(
            $(#[$part_meta:meta])*
            $part_vis:vis $part:ident: $part_type:ty $(= $part_default:expr)?;
        )* })?
    )*) => { $(
        $crate::settings! { @$kind
            $(#[$meta])*
            $vis struct $name {
                $($(#[$($field_meta)*])* $field_vis $field $(as $key)?: $type, [$($limits)?], [$($default)?];)*
            } { $($($(#[$part_meta])* $part_vis $part: $part_type;)*)? }
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::settings!(@default $($default)?),)*
                    $($($part: $crate::settings!(@default $($part_default)?),)*)?
                }
            }
        }

        impl $crate::Settings for $name {
            $(const EXPECTING: &'static str = $expecting;)?

            fn names() -> ::std::vec::Vec<&'static str> {
                #[allow(unused_mut)]
                let mut names = ::std::vec![$($crate::settings!(@name $field $($key)?)),*];
                $($(names.extend(<$part_type as $crate::Settings>::names());)*)?
                names
            }

            fn declared(&self) -> ::std::vec::Vec<$crate::Declared> {
                #[allow(unused_imports)]
                use $crate::declared::{AsList, AsOption, AsTable, AsValue};
                #[allow(unused_mut)]
                let mut declared = ::std::vec![$($crate::Declared::new(
                    $crate::settings!(@name $field $($key)?),
                    ::std::concat!($($crate::settings!(@doc $($field_meta)*)),*),
                    $crate::settings!(@expected $($limits)?),
                    &self.$field,
                    (&&&&$crate::declared::Of(&self.$field)).inner(),
                )),*];
                $($(declared.extend($crate::Settings::declared(&self.$part));)*)?
                declared
            }

            fn read<'de, A: ::serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut A,
            ) -> ::std::result::Result<bool, A::Error> {
                $(if name == $crate::settings!(@name $field $($key)?) {
                    self.$field = map.next_value_seed($crate::settings!(@seed $($limits)?))?;
                    return Ok(true);
                })*
                Ok(false $($(|| $crate::Settings::read(&mut self.$part, name, map)?)*)?)
            }

            fn check_numbers(&self) -> ::std::result::Result<(), (&'static str, ::std::string::String)> {
                $($($crate::Within::check(stringify!($field), &self.$field, $limits)?;)?)*
                $($($crate::Settings::check_numbers(&self.$part)?;)*)?
                Ok(())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                $crate::Settings::read_all(deserializer)
            }
        }
    )* };
    (@table
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $(
            $(#[$($field_meta:tt)*])*
            $field_vis:vis $field:ident $(as $key:literal)?: $type:ty, [$($limits:expr)?], [$($default:expr)?];
        )* } { $($(#[$part_meta:meta])* $part_vis:vis $part:ident: $part_type:ty;)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        $vis struct $name {
            $($(#[$($field_meta)*])* $(#[serde(rename = $key)])? $field_vis $field: $type,)*
            $($(#[$part_meta])* #[serde(flatten)] $part_vis $part: $part_type,)*
        }
    };
    (@flags
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $(
            $(#[$($field_meta:tt)*])*
            $field_vis:vis $field:ident $(as $key:literal)?: $type:ty, [$($limits:expr)?], [$($default:expr)?];
        )* } { $($(#[$part_meta:meta])* $part_vis:vis $part:ident: $part_type:ty;)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        #[command(rename_all = "snake_case")]
        $vis struct $name { $(
            #[arg(long $(= $key)?)]
            $(#[arg(value_parser = $crate::parser($limits))])?
            $(#[arg(default_value_t = $default)])?
            $(#[$($field_meta)*])*
            $(#[serde(rename = $key)])?
            $field_vis $field: $type,
        )* $(
            #[command(flatten)]
            #[serde(flatten)]
            $(#[$part_meta])*
            $part_vis $part: $part_type,
        )* }
    };
    (@default) => { ::std::default::Default::default() };
    (@default $default:expr) => { $default };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@doc doc = $line:expr) => { ::std::concat!($line, "\n") };
    (@doc $($other:tt)*) => { "" };
    (@expected) => { ::std::option::Option::None };
    (@expected $limits:expr) => { ::std::option::Option::Some($crate::Limits::expected(&$limits)) };
    (@seed) => { ::std::marker::PhantomData };
    (@seed $limits:expr) => { $crate::Within::new($limits) };
}

/// Settings that are read from a table. [`settings!`](crate::settings) implements it.
pub trait Settings: Default {
    /// The error message for a value that is not a table.
    const EXPECTING: &'static str = "a table of settings";

    /// The keys.
    fn names() -> Vec<&'static str>;

    /// The declarations of the settings, with the values of `self` as the defaults.
    fn declared(&self) -> Vec<Declared>;

    /// Reads the value of a key; `false` if there is no such key.
    ///
    /// # Errors
    /// A value of another type, or a number beyond its limits.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Checks settings that were not read.
    ///
    /// # Errors
    /// The field of a number that is out of range, with a description.
    fn check_numbers(&self) -> Result<(), (&'static str, String)>;

    /// Reads a table.
    ///
    /// # Errors
    /// As [`Settings::read`], and unknown keys.
    fn read_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Table(PhantomData))
    }
}

struct Table<S>(PhantomData<S>);

impl<'de, S: Settings> Visitor<'de> for Table<S> {
    type Value = S;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::EXPECTING)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<S, A::Error> {
        let mut settings = S::default();
        while let Some(name) = map.next_key_seed(Name(S::names()))? {
            settings.read(&name, &mut map)?;
        }
        Ok(settings)
    }
}

/// Deserializes a key, so that the error of an unknown key has a position.
struct Name(Vec<&'static str>);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let name = String::deserialize(deserializer)?;
        if self.0.contains(&name.as_str()) {
            return Ok(name);
        }
        let known: Vec<String> = self.0.iter().map(|name| format!("`{name}`")).collect();
        Err(D::Error::custom(format_args!("unknown field `{name}`, expected one of {}", known.join(", "))))
    }
}

/// Reads a number within limits, or an optional one.
#[derive(Debug)]
pub struct Within<L, T>(L, PhantomData<T>);

impl<L: Limits, T: Number<L::Number>> Within<L, T> {
    /// A reader of numbers within `limits`.
    pub fn new(limits: L) -> Self {
        Self(limits, PhantomData)
    }

    /// Checks the value of a field.
    ///
    /// # Errors
    /// The field name and a description of the invalid value.
    pub fn check(name: &'static str, value: &T, limits: L) -> Result<(), (&'static str, String)> {
        match value.number().map(|number| (number, in_range(number, limits))) {
            Some((number, Err(expected))) => Err((name, format!("{expected}, not {number}"))),
            _ => Ok(()),
        }
    }
}

impl<'de, L: Limits, T: Number<L::Number>> DeserializeSeed<'de> for Within<L, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let value = T::deserialize(deserializer)?;
        Self::check("", &value, self.0).map_err(|(_, wrong)| D::Error::custom(wrong))?;
        Ok(value)
    }
}

/// A number, or an optional one.
pub trait Number<N>: DeserializeOwned {
    /// The number, if there is one.
    fn number(&self) -> Option<N>;
}

impl<N: crate::Ranged + DeserializeOwned> Number<N> for N {
    fn number(&self) -> Option<N> {
        Some(*self)
    }
}

impl<N: crate::Ranged + DeserializeOwned> Number<N> for Option<N> {
    fn number(&self) -> Option<N> {
        *self
    }
}
