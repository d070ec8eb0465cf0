//! Filters of lists.

use std::hash::{BuildHasher as _, RandomState};

use super::paths::by_path;
use crate::jinja::call::Call;
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::text::joined;
use crate::jinja::value::{self, Value, View, items, length};

pub(super) fn count(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Ok(Value::Int(length(call.budget, value)? as i128))
}

pub(super) fn list(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Value::list(call.budget, items(call.budget, value)?)
}

/// `items`.
pub(super) fn pairs(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let pairs = match value {
        Value::Undefined(_) => Vec::new(),
        Value::Dict(dict) => items(call.budget, &Value::View(View::Items, dict.clone()))?,
        _ => return fail!("Can only get item pairs from a mapping."),
    };
    Value::iter(call.budget, "generator", pairs)
}

pub(super) fn first(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let first = match value {
        Value::Iter(iter) => iter.take_next(),
        other => items(call.budget, other)?.into_iter().next(),
    };
    Ok(first.unwrap_or_else(|| call.run.undefined("No first item, sequence was empty.")))
}

pub(super) fn last(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    if matches!(value, Value::Iter(_)) {
        return fail!("'{}' object is not reversible", value.type_name());
    }
    let last = items(call.budget, value)?.pop();
    Ok(last.unwrap_or_else(|| call.run.undefined("No last item, sequence was empty.")))
}

pub(super) fn random(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let all = items(call.budget, value)?;
    if all.is_empty() {
        return Ok(call.run.undefined("No random item, sequence was empty."));
    }
    let draw = RandomState::new().hash_one(0) % all.len() as u64;
    Ok(all[usize::try_from(draw).unwrap_or(0)].clone())
}

pub(super) fn reverse(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    if let Value::Text(text) = value {
        return call.made(text.text.chars().rev().collect::<String>(), text);
    }
    let mut all = items(call.budget, value)?;
    all.reverse();
    match value {
        Value::Iter(_) => Value::list(call.budget, all),
        _ => Value::iter(call.budget, "list_reverseiterator", all),
    }
}

pub(super) fn join(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let separator = call.passed(0).map_or(Ok(String::new()), |separator| value::text(call.budget, separator))?;
    let mut parts = Vec::new();
    for item in items(call.budget, value)? {
        parts.push(value::text(call.budget, &by_path(call.run, &item, call.given(1), None)?)?);
    }
    Value::text(call.budget, joined(call.budget, &parts, &separator)?)
}

/// The number of items or lists, all items, and the filler of the last lists.
fn parts(call: &Call<'_>, value: &Value) -> Result<(usize, Vec<Value>, Option<Value>)> {
    let count = usize::try_from(call.arg(0).int()?);
    let count = count.map_err(|_| Error::new("a count is negative or too large"))?;
    Ok((count, items(call.budget, value)?, call.given(1).cloned()))
}

/// Lists of that many items.
pub(super) fn batch(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (size, all, fill) = parts(call, value)?;
    let mut lists = Vec::new();
    for part in all.chunks(size.max(1)) {
        let mut list = part.to_vec();
        if let Some(fill) = &fill {
            call.budget.values(size.saturating_sub(list.len()))?;
            list.resize(size.max(list.len()), fill.clone());
        }
        lists.push(Value::list(call.budget, list)?);
    }
    Value::iter(call.budget, "generator", lists)
}

/// That many lists.
pub(super) fn slice(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (slices, all, fill) = parts(call, value)?;
    call.budget.values(slices)?;
    let (each, longer) = (all.len().checked_div(slices).unwrap_or(0), all.len().checked_rem(slices).unwrap_or(0));
    let (mut lists, mut from) = (Vec::with_capacity(slices), 0);
    for index in 0..slices {
        let end = from + each + usize::from(index < longer);
        let mut list = all[from..end].to_vec();
        list.extend(fill.clone().filter(|_| index >= longer));
        lists.push(Value::list(call.budget, list)?);
        from = end;
    }
    Value::iter(call.budget, "generator", lists)
}
