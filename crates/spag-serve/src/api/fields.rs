//! Request fields: read one by one, so that each error names its field and none is silently ignored.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use spag_io::quote;

use super::error::ApiError;

/// Fields not read yet. Null fields count as absent, known or not.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Value>);

/// A known field that this server does not support, with the values that have no effect.
pub(crate) struct Refused {
    name: &'static str,
    is_neutral: fn(&Value) -> bool,
    /// The remedy.
    instead: &'static str,
}

impl Refused {
    pub(crate) const fn new(name: &'static str, is_neutral: fn(&Value) -> bool, instead: &'static str) -> Self {
        Self { name, is_neutral, instead }
    }
}

impl Fields {
    /// Parses the object in a body, whose size [`Receiver`](crate::receive::Receiver) has limited.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self::new(fields)),
            Ok(_) => Err(ApiError::bad("The body is not a JSON object")),
            Err(error) => Err(ApiError::bad(format!("The body is not valid JSON: {}", quote(&error.to_string())))),
        }
    }

    /// Fields of an object within a request.
    pub(crate) fn new(mut fields: Map<String, Value>) -> Self {
        fields.retain(|_, value| !value.is_null());
        Self(fields)
    }

    /// Takes a field.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Whether a field is present and not read yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let wrong = || ApiError::field(name, format_args!("expected {expected}, not {}", shown(&value)));
        read(&value).map(Some).ok_or_else(wrong)
    }

    /// A whole number within a range. `2.0` is 2, as in Python.
    pub(crate) fn whole(&mut self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.typed(name, &expected, |value| whole(value).filter(|number| range.contains(number)))
    }

    /// A number within a range.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.typed(name, &expected, |value| value.as_f64().filter(|number| range.contains(number)))
    }

    /// A 64-bit whole number, signed or unsigned.
    pub(crate) fn seed(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        let read = |value: &Value| value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
        self.typed(name, "a whole number of 64 bits", read)
    }

    /// A boolean.
    pub(crate) fn truth(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.typed(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// An object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        self.typed(name, "an object", |value| value.as_object().cloned())
    }

    /// Refuses unsupported fields, unless their values have no effect.
    pub(crate) fn refuse(&mut self, refused: &[Refused]) -> Result<(), ApiError> {
        for Refused { name, is_neutral, instead } in refused {
            if self.take(name).is_some_and(|value| !is_neutral(&value)) {
                return Err(ApiError::unsupported(name, instead));
            }
        }
        Ok(())
    }

    /// Refuses all remaining fields, except `ignored` ones, which affect no answer.
    pub(crate) fn finish(mut self, ignored: &[&str]) -> Result<(), ApiError> {
        ignored.iter().for_each(|name| drop(self.0.remove(*name)));
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(ApiError::field(quote(name), "Unrecognized request argument")),
        }
    }
}

/// A non-negative whole number, written with or without `.0`.
pub(crate) fn whole(value: &Value) -> Option<usize> {
    /// Up to here every whole number is an exact f64.
    const MOST: f64 = (1u64 << 53) as f64;
    let rounded = || value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..=MOST).contains(x)).map(|x| x as usize);
    value.as_u64().and_then(|number| usize::try_from(number).ok()).or_else(rounded)
}

/// A value abridged for messages.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(_) => "an object".into(),
        other => quote(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn wrong_types_and_ranges_name_the_field() {
        for (value, said) in [
            (json!("16"), "max_tokens: expected a whole number from 0 to 99, not \"16\""),
            (json!(-1), "not -1"),
            (json!(1.5), "not 1.5"),
            (json!(1e300), "not 1e+300"),
            (json!(100), "not 100"),
            (json!([1, 2]), "not a list of 2"),
            (json!({"a": 1}), "not an object"),
            (json!(true), "not true"),
        ] {
            let error = fields(json!({"max_tokens": value})).whole("max_tokens", 0..=99).unwrap_err();
            assert!(error.message.contains(said), "{}", error.message);
        }
        for (value, expected) in [(json!(7), Some(7)), (json!(7.0), Some(7)), (json!(null), None)] {
            assert_eq!(fields(json!({"n": value})).whole("n", 0..=99), Ok(expected));
        }
    }

    #[test]
    fn bodies_that_are_no_object_are_refused() {
        for body in ["", "[]", "NaN", "{\"a\": NaN}", "{\"a\": 1e999}", "{\"a\":", "\u{0}"] {
            assert!(Fields::parse(body.as_bytes()).is_err(), "{body}");
        }
        assert!(Fields::parse(&[0xff, 0xfe]).is_err());
        let deep = vec![b'['; 100_000];
        assert!(Fields::parse(&deep).unwrap_err().message.contains("recursion limit"));
    }

    #[test]
    fn refused_fields_are_named_unless_they_ask_for_nothing() {
        let refused = [Refused::new("presence_penalty", |value| value.as_f64() == Some(0.0), "leave it out")];
        for neutral in [json!({}), json!({"presence_penalty": null}), json!({"presence_penalty": 0})] {
            let mut fields = fields(neutral);
            fields.refuse(&refused).unwrap();
            fields.finish(&[]).unwrap();
        }
        let error = fields(json!({"presence_penalty": 0.5})).refuse(&refused).unwrap_err();
        assert_eq!(error.message, "presence_penalty: this server does not support it; leave it out");
        fields(json!({"prompt_cache_key": null})).finish(&[]).unwrap();
        let error = fields(json!({"user": "me", "temprature": 1})).finish(&["user"]).unwrap_err();
        assert_eq!(error.message, "temprature: Unrecognized request argument");
    }

    #[test]
    fn seeds_have_64_bits_with_or_without_a_sign() {
        let seed = |value: Value| fields(json!({"seed": value})).seed("seed");
        assert_eq!((seed(json!(-1)), seed(json!(u64::MAX))), (Ok(Some(u64::MAX)), Ok(Some(u64::MAX))));
        assert!(seed(json!(1.5)).is_err() && seed(json!("1")).is_err() && seed(json!(1e30)).is_err());
    }
}
