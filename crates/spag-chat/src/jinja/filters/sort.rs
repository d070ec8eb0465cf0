//! Filters that compare the items of a list.

use super::paths::{by_path, folded};
use crate::jinja::ast::Comparison;
use crate::jinja::call::Call;
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{Dict, Key, Value, View, compare, equal, items};

pub(super) fn sort(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let case = call.is_set(1)?;
    let mut keyed = Vec::new();
    for item in items(call.budget, value)? {
        keyed.push((sort_key(call.run, &item, call.given(2), case)?, item));
    }
    sorted_list(call, keyed, call.is_set(0)?)
}

pub(super) fn dictsort(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let Value::Dict(dict) = value else { return fail!("'{}' object has no items", value.type_name()) };
    let place = match call.passed(1).map(Value::str).transpose()? {
        None | Some("key") => 0,
        Some("value") => 1,
        Some(_) => return fail!("You can only sort by either \"key\" or \"value\""),
    };
    let case = call.is_set(0)?;
    let mut keyed = Vec::new();
    for pair in items(call.budget, &Value::View(View::Items, dict.clone()))? {
        keyed.push((key_of(call, &pair, Some(&Value::Int(place)), case)?, pair));
    }
    sorted_list(call, keyed, call.is_set(2)?)
}

pub(super) fn unique(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let case = call.is_set(0)?;
    let (mut seen, mut kept) = (Dict::default(), Vec::new());
    for item in items(call.budget, value)? {
        let key = Key::new(call.budget, key_of(call, &item, call.given(1), case)?)?;
        if seen.get(&key).is_none() {
            seen.insert(call.budget, key, Value::None)?;
            kept.push(item);
        }
    }
    Value::iter(call.budget, "generator", kept)
}

/// `min` and `max`.
pub(super) fn extreme(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let case = call.is_set(0)?;
    let operator = if call.name == "min" { Comparison::Less } else { Comparison::Greater };
    let mut best: Option<(Value, Value)> = None;
    for item in items(call.budget, value)? {
        let key = key_of(call, &item, call.given(1), case)?;
        let is_better = match &best {
            Some((other, _)) => compare(call.budget, operator, &key, other)?,
            None => true,
        };
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or_else(|| call.run.undefined("No aggregated item, sequence was empty."), |(_, item)| item))
}

pub(super) fn groupby(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (budget, case) = (call.budget, call.is_set(2)?);
    let key = |item: &Value| by_path(call.run, item, call.passed(0), call.passed(1));
    let mut keyed = Vec::new();
    for item in items(budget, value)? {
        keyed.push((folded(call.run, key(&item)?, case)?, item));
    }
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in sorted(call.run, keyed, false)? {
        match groups.last_mut() {
            Some((last, group)) if equal(budget, last, &key)? => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut pairs = Vec::with_capacity(groups.len());
    for (_, group) in groups {
        // The key of the first item, in its original case.
        pairs.push(Value::group(budget, key(&group[0])?, Value::list(budget, group)?)?);
    }
    Value::list(budget, pairs)
}

/// The comparison key of an item.
fn key_of(call: &Call<'_>, item: &Value, path: Option<&Value>, case: bool) -> Result<Value> {
    folded(call.run, by_path(call.run, item, path, None)?, case)
}

fn sorted_list(call: &Call<'_>, keyed: Vec<(Value, Value)>, reverse: bool) -> Result<Value> {
    Value::list(call.budget, sorted(call.run, keyed, reverse)?.into_iter().map(|(_, item)| item).collect())
}

/// The sort key of an item: one attribute, or several separated by commas.
fn sort_key(run: &Run, item: &Value, attribute: Option<&Value>, case: bool) -> Result<Value> {
    match attribute.and_then(Value::as_text) {
        Some(several) if several.contains(',') => {
            let mut keys = Vec::new();
            for one in several.split(',') {
                keys.push(folded(run, by_path(run, item, Some(&Value::plain(one)), None)?, case)?);
            }
            Value::list(&run.budget, keys)
        }
        _ => {
            let key = folded(run, by_path(run, item, attribute, None)?, case)?;
            Value::list(&run.budget, vec![key])
        }
    }
}

/// The items sorted by key, stably. Not the standard library's sort, since comparisons can fail.
fn sorted(run: &Run, items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<(Value, Value)>> {
    let mut runs: Vec<Vec<(Value, Value)>> = items.into_iter().map(|item| vec![item]).collect();
    let operator = if reverse { Comparison::Greater } else { Comparison::Less };
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            let Some(right) = pairs.next() else {
                merged.push(left);
                break;
            };
            let mut both = Vec::with_capacity(left.len() + right.len());
            let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
            while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
                both.extend(if compare(&run.budget, operator, b, a)? { right.next() } else { left.next() });
            }
            both.extend(left.chain(right));
            merged.push(both);
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}
