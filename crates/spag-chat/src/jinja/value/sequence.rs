//! Lists, tuples, ranges and texts by index.

use super::{Value, View};
use crate::jinja::budget::Budget;
use crate::jinja::error::{Error, Result, fail};

/// The items of a list or a tuple.
pub(crate) struct Seq {
    pub(crate) items: Vec<Value>,
    /// One more than the deepest nesting of its items.
    pub(crate) levels: usize,
    /// Whether it is a pair of `groupby`, whose items have the names `grouper` and `list`.
    pub(crate) is_group: bool,
}

/// `range(begin, end, step)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) begin: i128,
    pub(crate) end: i128,
    pub(crate) step: i128,
}

impl Range {
    pub(crate) fn len(self) -> usize {
        let (distance, step) = if self.step > 0 {
            (self.end.saturating_sub(self.begin), self.step)
        } else {
            (self.begin.saturating_sub(self.end), self.step.saturating_neg())
        };
        if distance <= 0 { 0 } else { usize::try_from((distance - 1) / step + 1).unwrap_or(usize::MAX) }
    }

    pub(crate) fn get(self, index: usize) -> i128 {
        self.begin.saturating_add(self.step.saturating_mul(index as i128))
    }
}

/// The maximum length of a range in Jinja's sandbox.
const RANGE: usize = 100_000;

impl Range {
    pub(crate) fn checked(self) -> Result<Self> {
        if self.step == 0 {
            return fail!("range() arg 3 must not be zero");
        }
        if self.len() > RANGE {
            return fail!("Range too big. The sandbox blocks ranges larger than {RANGE} values");
        }
        Ok(self)
    }
}

/// The items of an iterable value.
pub(crate) fn items(budget: &Budget, value: &Value) -> Result<Vec<Value>> {
    let items: Vec<Value> = match value {
        Value::Undefined(undefined) if undefined.strict => return Err(Error::new(undefined.why.clone())),
        Value::Undefined(_) => Vec::new(),
        Value::List(seq) | Value::Tuple(seq) => {
            budget.values(seq.items.len())?;
            seq.items.clone()
        }
        Value::Text(text) => {
            let count = text.text.chars().count();
            budget.values(count.saturating_mul(2))?;
            text.text.chars().map(|c| Value::plain(c.to_string())).collect()
        }
        Value::Dict(dict) => {
            budget.values(dict.len())?;
            dict.iter().map(|(key, _)| key.value().clone()).collect()
        }
        Value::View(view, dict) => {
            budget.values(dict.len())?;
            match view {
                View::Keys => dict.iter().map(|(key, _)| key.value().clone()).collect(),
                View::Values => dict.iter().map(|(_, value)| value.clone()).collect(),
                View::Items => dict
                    .iter()
                    .map(|(key, value)| Value::tuple(budget, vec![key.value().clone(), value.clone()]))
                    .collect::<Result<_>>()?,
            }
        }
        Value::Range(range) => {
            budget.values(range.len())?;
            (0..range.len()).map(|index| Value::Int(range.get(index))).collect()
        }
        Value::Iter(iter) => {
            let rest = iter.take_rest();
            budget.values(rest.len())?;
            rest.to_vec()
        }
        Value::Loop(state) => {
            budget.values(state.items.items.len())?;
            state.items.items.clone()
        }
        other => return fail!("'{}' object is not iterable", other.type_name()),
    };
    Ok(items)
}

/// `len(value)`.
pub(crate) fn length(budget: &Budget, value: &Value) -> Result<usize> {
    Ok(match value {
        Value::Undefined(undefined) if undefined.strict => return Err(Error::new(undefined.why.clone())),
        Value::Undefined(_) => 0,
        Value::List(seq) | Value::Tuple(seq) => seq.items.len(),
        Value::Text(text) => {
            budget.work(text.text.len())?;
            text.text.chars().count()
        }
        Value::Dict(dict) | Value::View(_, dict) => dict.len(),
        Value::Range(range) => range.len(),
        Value::Loop(state) => state.items.items.len(),
        other => return fail!("object of type '{}' has no len()", other.type_name()),
    })
}

/// `value[index]`, or `None` if there is no such item.
pub(crate) fn item(budget: &Budget, value: &Value, index: i128) -> Result<Option<Value>> {
    if !matches!(value, Value::List(_) | Value::Tuple(_) | Value::Text(_) | Value::Range(_)) {
        return Ok(None);
    }
    let len = length(budget, value)?;
    let index = if index < 0 { index.saturating_add(len as i128) } else { index };
    let Some(index) = usize::try_from(index).ok().filter(|index| *index < len) else { return Ok(None) };
    Ok(match value {
        Value::List(seq) | Value::Tuple(seq) => seq.items.get(index).cloned(),
        Value::Text(text) => {
            budget.work(text.text.len())?;
            let c = text.text.chars().nth(index);
            c.map(|c| Value::made(budget, c.to_string(), text.markup)).transpose()?
        }
        Value::Range(range) => Some(Value::Int(range.get(index))),
        _ => None,
    })
}

/// `value[begin:end:step]`, or `None` if the value has no slices.
pub(crate) fn slice(budget: &Budget, value: &Value, parts: [Option<i128>; 3]) -> Result<Option<Value>> {
    if !matches!(value, Value::List(_) | Value::Tuple(_) | Value::Text(_) | Value::Range(_)) {
        return Ok(None);
    }
    let len = length(budget, value)? as i128;
    let step = parts[2].unwrap_or(1);
    if step == 0 {
        return fail!("slice step cannot be zero");
    }
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |part: Option<i128>, default: i128| match part {
        None => default,
        Some(at) if at < 0 => at.saturating_add(len).max(low),
        Some(at) => at.min(high),
    };
    let (begin, end) = if step > 0 {
        (bound(parts[0], 0), bound(parts[1], len))
    } else {
        (bound(parts[0], len - 1), bound(parts[1], -1))
    };
    let picked = Range { begin, end, step };
    let places = || (0..picked.len()).filter_map(|index| usize::try_from(picked.get(index)).ok());
    Ok(Some(match value {
        Value::List(seq) => Value::list(budget, places().map(|at| seq.items[at].clone()).collect())?,
        Value::Tuple(seq) => Value::tuple(budget, places().map(|at| seq.items[at].clone()).collect())?,
        Value::Range(range) => {
            let at = |place: i128| range.begin.saturating_add(range.step.saturating_mul(place));
            Value::Range(Range { begin: at(begin), end: at(end), step: range.step.saturating_mul(step) })
        }
        Value::Text(text) => {
            budget.text(text.text.len())?;
            let made: String = if step == 1 {
                text.text.chars().skip(usize::try_from(begin).unwrap_or(0)).take(picked.len()).collect()
            } else {
                budget.values(text.text.len() / 8)?;
                let chars: Vec<char> = text.text.chars().collect();
                places().map(|at| chars[at]).collect()
            };
            Value::made(budget, made, text.markup)?
        }
        _ => return Ok(None),
    }))
}
