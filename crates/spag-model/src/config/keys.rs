//! Typed access to the keys of a `config.json`. Null counts as absent, unless stated otherwise.

use serde_json::{Map, Value};
use spag_io::quote;

use crate::error::{Error, Result};

/// The keys of a `config.json`, or of an object inside it.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Keys<'a> {
    /// A key's value, unless it is null.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Whether the key is present, even if null.
    pub(super) fn contains(self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    fn typed<T>(self, key: &str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => fail(format!("`{key}` is {}; expected {expected}", quote(&value.to_string()))),
        }
    }

    /// A whole number of at least 0.
    pub(super) fn size(self, key: &str) -> Result<Option<usize>> {
        self.typed(key, "a whole number", |value| value.as_u64().and_then(|size| usize::try_from(size).ok()))
    }

    /// [`Keys::size`] of a required key.
    pub(super) fn required_size(self, key: &str) -> Result<usize> {
        match self.size(key)? {
            Some(size) => Ok(size),
            None => fail(format!("`{key}` is missing")),
        }
    }

    pub(super) fn number(self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a number", Value::as_f64)
    }

    pub(super) fn truth(self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub(super) fn text(self, key: &str) -> Result<Option<&'a str>> {
        self.typed(key, "a string", Value::as_str)
    }

    pub(super) fn object(self, key: &str) -> Result<Option<Keys<'a>>> {
        self.typed(key, "an object", |value| value.as_object().map(Keys))
    }

    pub(super) fn list(self, key: &str) -> Result<Option<&'a Vec<Value>>> {
        self.typed(key, "a list", Value::as_array)
    }

    /// A token id.
    pub(super) fn id(self, key: &str) -> Result<Option<u32>> {
        self.typed(key, "a token id", id)
    }

    /// A token id or a list of them.
    pub(super) fn ids(self, key: &str) -> Result<Vec<u32>> {
        let read = |value: &Value| match value {
            Value::Array(list) => list.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        };
        Ok(self.typed(key, "a token id or a list of them", read)?.unwrap_or_default())
    }
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// Checks that a number is in (0, `most`], also as f32.
pub(super) fn check_f32(key: &str, value: f64, most: f64) -> Result<()> {
    match value as f32 {
        x if x > 0.0 && value <= most => Ok(()),
        _ => fail(format!("`{key}` is {value}; it must be above 0 and at most {most:e}")),
    }
}

/// The error of a configuration.
pub(super) fn fail<T>(why: String) -> Result<T> {
    Err(Error::Config(why))
}
