//! Dicts, which keep insertion order.

use std::hash::{Hash, Hasher};

use indexmap::IndexMap;

use super::make::levels;
use super::{Value, compare::same_number};
use crate::jinja::budget::Budget;
use crate::jinja::error::{Error, Result, fail};

/// A dict.
#[derive(Clone, Default)]
pub(crate) struct Dict {
    entries: IndexMap<Key, Value>,
    /// One more than the deepest nesting of its values.
    pub(super) levels: usize,
}

impl Dict {
    pub(crate) fn insert(&mut self, budget: &Budget, key: Key, value: Value) -> Result<()> {
        budget.values(3)?;
        self.levels = self.levels.max(levels([key.value(), &value].into_iter())?);
        self.entries.insert(key, value);
        Ok(())
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Value> {
        self.entries.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Value)> {
        self.entries.iter()
    }
}

/// A hashable value.
#[derive(Clone)]
pub(crate) struct Key(Value);

impl Key {
    /// A key of this value. Hashing counts its values as steps.
    pub(crate) fn new(budget: &Budget, value: Value) -> Result<Self> {
        count(budget, &value)?;
        Ok(Self(value))
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0
    }
}

/// Counts the values of a key and checks that they are hashable.
fn count(budget: &Budget, value: &Value) -> Result<()> {
    match value {
        Value::Tuple(seq) => {
            budget.work(seq.items.len() * 16)?;
            seq.items.iter().try_for_each(|item| count(budget, item))
        }
        Value::Text(text) => budget.work(text.text.len()),
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Range(_) => Ok(()),
        Value::Undefined(undefined) if undefined.strict => Err(Error::new(undefined.why.clone())),
        Value::Undefined(_) => Ok(()),
        other => fail!("unhashable type: '{}'", other.type_name()),
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Value::Tuple(a), Value::Tuple(b)) => {
                a.items.len() == b.items.len()
                    && a.items.iter().zip(&b.items).all(|(a, b)| Self(a.clone()) == Self(b.clone()))
            }
            (Value::Text(a), Value::Text(b)) => a.text == b.text,
            (Value::Range(a), Value::Range(b)) => a == b,
            (Value::None, Value::None) | (Value::Undefined(_), Value::Undefined(_)) => true,
            (a, b) => same_number(a, b).unwrap_or(false),
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Value::Tuple(seq) => {
                state.write_usize(seq.items.len());
                seq.items.iter().for_each(|item| Self(item.clone()).hash(state));
            }
            Value::Text(text) => text.text.hash(state),
            Value::Bool(value) => i128::from(*value).hash(state),
            Value::Int(value) => value.hash(state),
            // Equal numbers have equal hashes.
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e38 => (*value as i128).hash(state),
            Value::Float(value) => value.to_bits().hash(state),
            Value::Range(range) => range.begin.hash(state),
            _ => state.write_u8(0),
        }
    }
}
