//! Choices by their names.

/// Parses and prints enums with the names that serde gives their variants, so that flags and files have the same. The types
/// implement `Serialize` and `Deserialize`, with variants without fields.
///
/// ```
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// #[serde(rename_all = "snake_case")]
/// enum Order {
///     AsRead,
///     Shuffled,
/// }
///
/// spag_io::named_choices!(Order);
///
/// assert_eq!(("as_read".parse(), Order::Shuffled.to_string()), (Ok(Order::AsRead), "shuffled".to_owned()));
/// assert!("random".parse::<Order>().unwrap_err().to_string().contains("expected `as_read` or `shuffled`"));
/// ```
#[macro_export]
macro_rules! named_choices {
    ($($choice:ty),* $(,)?) => { $(
        impl ::std::str::FromStr for $choice {
            type Err = ::serde::de::value::Error;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                ::serde::Deserialize::deserialize(::serde::de::value::StrDeserializer::new(text))
            }
        }

        impl ::std::fmt::Display for $choice {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::serde::Serialize::serialize(self, f)
            }
        }
    )* };
}
