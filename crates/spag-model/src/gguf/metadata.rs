//! The keys and values of a GGUF file.

use std::collections::HashMap;

use spag_io::quote;

use super::header::Header;
use crate::error::Result;

/// Maximum keys. Published models have some 50.
const MAX_KEYS: u64 = 1 << 16;
/// Maximum bytes of a key, by the format's specification.
const MAX_KEY: usize = 65_535;
/// Maximum elements of all arrays together. The largest published vocabularies have some 1.5 million, including merges,
/// scores and types.
const MAX_ELEMENTS: u64 = 1 << 22;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    /// 64 bits; a 32-bit number is converted to the shortest decimal that round-trips.
    Float(f64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
}

/// All keys of a file.
pub(crate) struct Metadata(HashMap<String, Value>);

/// Type numbers of the file format.
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Minimum bytes of a value of a type.
fn least_bytes(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        TEXT | 10..=12 => Some(8),
        _ => None,
    }
}

impl Metadata {
    /// Reads `count` keys with their values.
    pub(super) fn read(header: &mut Header, count: u64) -> Result<Self> {
        if count > MAX_KEYS {
            return Err(header.invalid(format!("it has {count} keys; at most {MAX_KEYS} are read")));
        }
        let mut values = HashMap::new();
        let mut elements = MAX_ELEMENTS;
        for _ in 0..count {
            let key = header.text()?;
            if key.len() > MAX_KEY {
                return Err(header.invalid(format!("a key has {} bytes; at most {MAX_KEY} are read", key.len())));
            }
            let value = match header.u32()? {
                ARRAY => array(header, &key, &mut elements)?,
                TEXT => Value::Text(header.text()?),
                kind => scalar(header, &key, kind)?,
            };
            if values.insert(key.clone(), value).is_some() {
                return Err(header.invalid(format!("key `{}` is there twice", quote(&key))));
            }
        }
        Ok(Self(values))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("key `{}` is not {expected}", quote(key))),
        }
    }

    /// A non-negative integer. An array of equal elements counts as that number: llama.cpp may write one per layer.
    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>, String> {
        self.typed(key, "a whole number that is the same in all layers", |value| match value {
            Value::Int(number) => usize::try_from(*number).ok(),
            Value::Ints(numbers) => match numbers.split_first() {
                Some((first, rest)) if rest.iter().all(|number| number == first) => usize::try_from(*first).ok(),
                _ => None,
            },
            _ => None,
        })
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.typed(key, "a finite number", |value| match value {
            Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
            Value::Int(number) => Some(*number as f64),
            _ => None,
        })
    }

    pub(crate) fn truth(&self, key: &str) -> Result<Option<bool>, String> {
        self.typed(key, "true or false", |value| match value {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        })
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, String> {
        self.typed(key, "a text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Option<&[String]>, String> {
        self.typed(key, "an array of texts", |value| match value {
            Value::Texts(texts) => Some(texts.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn ints(&self, key: &str) -> Result<Option<&[i64]>, String> {
        self.typed(key, "an array of whole numbers", |value| match value {
            Value::Ints(numbers) => Some(numbers.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn floats(&self, key: &str) -> Result<Option<&[f32]>, String> {
        self.typed(key, "an array of numbers in 32 bits", |value| match value {
            Value::Floats(numbers) => Some(numbers.as_slice()),
            _ => None,
        })
    }
}

/// A number or boolean.
fn scalar(header: &mut Header, key: &str, kind: u32) -> Result<Value> {
    Ok(match kind {
        6 => Value::Float(shortest(f32::from_le_bytes(header.bytes()?))),
        12 => Value::Float(f64::from_le_bytes(header.bytes()?)),
        7 => Value::Bool(truth(header, key)?),
        _ => Value::Int(int(header, key, kind)?),
    })
}

fn int(header: &mut Header, key: &str, kind: u32) -> Result<i64> {
    Ok(match kind {
        // Booleans, stored as numbers: only arrays that are not read here contain them.
        0 | 7 => u8::from_le_bytes(header.bytes()?).into(),
        1 => i8::from_le_bytes(header.bytes()?).into(),
        2 => u16::from_le_bytes(header.bytes()?).into(),
        3 => i16::from_le_bytes(header.bytes()?).into(),
        4 => header.u32()?.into(),
        5 => i32::from_le_bytes(header.bytes()?).into(),
        // No key uses numbers that need the last bit.
        10 => i64::try_from(header.u64()?).unwrap_or(i64::MAX),
        11 => i64::from_le_bytes(header.bytes()?),
        other => return Err(header.invalid(format!("key `{}` has the unknown type {other}", quote(key)))),
    })
}

fn truth(header: &mut Header, key: &str) -> Result<bool> {
    match header.bytes()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [other] => Err(header.invalid(format!("key `{}` is {other}; a truth value is 0 or 1", quote(key)))),
    }
}

/// An array, whose elements are subtracted from the limit `elements`.
fn array(header: &mut Header, key: &str, elements: &mut u64) -> Result<Value> {
    let (kind, count) = (header.u32()?, header.u64()?);
    let Some(bytes) = least_bytes(kind) else {
        let what = if kind == ARRAY { "arrays, which are not read".into() } else { format!("type {kind}") };
        return Err(header.invalid(format!("key `{}` is an array of {what}", quote(key))));
    };
    if count.checked_mul(bytes).is_none_or(|bytes| bytes > header.left()) {
        return Err(header.invalid(format!("key `{}` has {count} elements, more than fit into the file", quote(key))));
    }
    let Some(left) = elements.checked_sub(count) else {
        return Err(header.invalid(format!("its arrays have more than {MAX_ELEMENTS} elements together")));
    };
    *elements = left;
    let all = 0..count;
    Ok(match kind {
        6 => Value::Floats(all.map(|_| Ok(f32::from_le_bytes(header.bytes()?))).collect::<Result<_>>()?),
        12 => Value::Floats(all.map(|_| Ok(f64::from_le_bytes(header.bytes()?) as f32)).collect::<Result<_>>()?),
        TEXT => Value::Texts(all.map(|_| header.text()).collect::<Result<_>>()?),
        _ => Value::Ints(all.map(|_| int(header, key, kind)).collect::<Result<_>>()?),
    })
}

/// The shortest decimal that is this 32-bit number: 1e-5, not 9.999999747378752e-6.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| number.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_32_bits_are_written_shortly() {
        for number in [1e-5, 1e-6, 5e5, 1e4, 0.1, 10_000.5] {
            assert_eq!(shortest(number as f32), number);
        }
        assert!(shortest(f32::NAN).is_nan());
    }

    #[test]
    fn a_size_of_each_layer_is_a_size_if_all_are_equal() {
        let values = [("a", Value::Ints(vec![3, 3])), ("b", Value::Ints(vec![3, 4])), ("c", Value::Ints(Vec::new()))];
        let metadata = Metadata(values.map(|(key, value)| (key.to_owned(), value)).into());
        assert_eq!(metadata.size("a"), Ok(Some(3)));
        assert!(metadata.size("b").unwrap_err().contains("`b`") && metadata.size("c").is_err());
        assert_eq!(metadata.size("d"), Ok(None));
    }
}
