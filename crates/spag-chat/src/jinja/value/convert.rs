//! Conversions of values: from and to JSON, truth, and integers.

use serde_json::{Map, Number, Value as Json};

use super::{Key, Value, items};
use crate::jinja::budget::Budget;
use crate::jinja::error::{Error, Result, fail};

impl Value {
    pub(crate) fn from_json(budget: &Budget, json: &Json) -> Result<Self> {
        let _level = budget.enter()?;
        Ok(match json {
            Json::Null => Self::None,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Self::Int(value.into()),
                (None, Some(value)) => Self::Int(value.into()),
                (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::text(budget, text.as_str())?,
            Json::Array(list) => {
                let items = list.iter().map(|item| Self::from_json(budget, item)).collect::<Result<_>>()?;
                Self::list(budget, items)?
            }
            Json::Object(object) => {
                let mut pairs = Vec::with_capacity(object.len());
                for (key, value) in object {
                    pairs.push((Self::text(budget, key.as_str())?, Self::from_json(budget, value)?));
                }
                Self::dict(budget, pairs)?
            }
        })
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self, budget: &Budget) -> Result<Json> {
        let _level = budget.enter()?;
        budget.values(1)?;
        Ok(match self.defined()? {
            Self::None => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => Json::Number(value.into()),
                (_, Ok(value)) => Json::Number(value.into()),
                _ => return fail!("the integer {value} is too large"),
            },
            Self::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
            Self::Text(text) => {
                budget.text(text.text.len())?;
                Json::String(text.text.to_string())
            }
            Self::List(_) | Self::Tuple(_) | Self::Range(_) | Self::View(..) | Self::Iter(_) => {
                let items = items(budget, self)?;
                Json::Array(items.iter().map(|item| item.to_json(budget)).collect::<Result<_>>()?)
            }
            Self::Dict(dict) => {
                let mut object = Map::new();
                for (key, value) in dict.iter() {
                    object.insert(super::text(budget, key.value())?, value.to_json(budget)?);
                }
                Json::Object(object)
            }
            other => return fail!("a value of type '{}' is no data", other.type_name()),
        })
    }

    /// The value, or an error if it is undefined.
    pub(crate) fn defined(&self) -> Result<&Self> {
        match self {
            Self::Undefined(undefined) => Err(Error::new(undefined.why.clone())),
            value => Ok(value),
        }
    }

    /// `bool(value)`.
    pub(crate) fn truth(&self) -> Result<bool> {
        Ok(match self {
            Self::Undefined(undefined) if undefined.strict => return Err(Error::new(undefined.why.clone())),
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.text.is_empty(),
            Self::List(seq) | Self::Tuple(seq) => !seq.items.is_empty(),
            Self::Dict(dict) | Self::View(_, dict) => dict.len() > 0,
            Self::Range(range) => range.len() > 0,
            Self::Loop(state) => !state.items.items.is_empty(),
            _ => true,
        })
    }

    /// The value as an integer where Python accepts one; booleans are integers.
    pub(crate) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// A number as a float.
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            other => other.as_int().map(|value| value as f64),
        }
    }

    /// An integer argument; an error otherwise.
    pub(crate) fn int(&self) -> Result<i128> {
        match self.as_int() {
            Some(value) => Ok(value),
            None => fail!("'{}' object cannot be interpreted as an integer", self.type_name()),
        }
    }

    /// An index argument into `len` items, negative from the end; an error otherwise.
    pub(crate) fn place(&self, len: usize) -> Result<usize> {
        let at = self.int()?;
        let at = if at < 0 { at.saturating_add(len as i128).max(0) } else { at };
        Ok(usize::try_from(at).unwrap_or(usize::MAX))
    }

    /// A text argument; an error otherwise.
    pub(crate) fn str(&self) -> Result<&str> {
        match self.as_text() {
            Some(text) => Ok(text),
            None => fail!("expected a text, not '{}'", self.type_name()),
        }
    }

    /// The value of a key in a dict; `None` if it is missing or not hashable.
    pub(crate) fn entry(&self, budget: &Budget, key: &Self) -> Option<Self> {
        match self {
            Self::Dict(dict) => dict.get(&Key::new(budget, key.clone()).ok()?).cloned(),
            _ => None,
        }
    }
}
