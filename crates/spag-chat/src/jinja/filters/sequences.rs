//! Filters of lists.

use std::hash::{BuildHasher as _, RandomState};

use super::attributes::by_path;
use crate::jinja::arguments::{Args, given};
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::run::Run;
use crate::jinja::text::joined;
use crate::jinja::value::{self, Value, View, items, length};

pub(super) fn filter(run: &Run, name: &str, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    match name {
        "count" | "length" => {
            args.none(name)?;
            Ok(Value::Int(length(budget, value)? as i128))
        }
        "list" => {
            args.none(name)?;
            Value::list(budget, items(budget, value)?)
        }
        "items" => {
            args.none(name)?;
            match value {
                Value::Undefined(_) => Value::iter(budget, "generator", Vec::new()),
                Value::Dict(dict) => {
                    let pairs = items(budget, &Value::View(View::Items, dict.clone()))?;
                    Value::iter(budget, "generator", pairs)
                }
                _ => fail!("Can only get item pairs from a mapping."),
            }
        }
        "first" => {
            args.none(name)?;
            let first = match value {
                Value::Iter(iter) => iter.take_next(),
                other => items(budget, other)?.into_iter().next(),
            };
            Ok(first.unwrap_or_else(|| run.undefined("No first item, sequence was empty.")))
        }
        "last" => {
            args.none(name)?;
            if matches!(value, Value::Iter(_)) {
                return fail!("'{}' object is not reversible", value.type_name());
            }
            let last = items(budget, value)?.pop();
            Ok(last.unwrap_or_else(|| run.undefined("No last item, sequence was empty.")))
        }
        "random" => {
            args.none(name)?;
            let all = items(budget, value)?;
            if all.is_empty() {
                return Ok(run.undefined("No random item, sequence was empty."));
            }
            let draw = RandomState::new().hash_one(0) % all.len() as u64;
            Ok(all[usize::try_from(draw).unwrap_or(0)].clone())
        }
        "reverse" => {
            args.none(name)?;
            if let Value::Text(text) = value {
                return Value::made(budget, text.text.chars().rev().collect::<String>(), text.markup);
            }
            let mut all = items(budget, value)?;
            all.reverse();
            match value {
                Value::Iter(_) => Value::list(budget, all),
                _ => Value::iter(budget, "list_reverseiterator", all),
            }
        }
        "join" => {
            let [separator, attribute] = args.bind(name, ["d", "attribute"], 0)?;
            let separator = separator.map_or(Ok(String::new()), |separator| value::text(budget, &separator))?;
            let attribute = given(attribute);
            let mut parts = Vec::new();
            for item in items(budget, value)? {
                parts.push(value::text(budget, &by_path(run, &item, attribute.as_ref(), None)?)?);
            }
            Value::text(budget, joined(budget, &parts, &separator)?)
        }
        "batch" => batch(run, value, args),
        _ => slice(run, value, args),
    }
}

fn count(value: Option<Value>) -> Result<usize> {
    usize::try_from(value.unwrap_or(Value::None).int()?).map_err(|_| Error::new("a count is negative or too large"))
}

/// Lists of as many items.
fn batch(run: &Run, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let [size, fill] = args.bind("batch", ["linecount", "fill_with"], 1)?;
    let (size, fill) = (count(size)?, given(fill));
    let all = items(budget, value)?;
    let mut lists = Vec::new();
    for part in all.chunks(size.max(1)) {
        let mut list = part.to_vec();
        if let Some(fill) = &fill {
            budget.values(size.saturating_sub(list.len()))?;
            list.resize(size.max(list.len()), fill.clone());
        }
        lists.push(Value::list(budget, list)?);
    }
    Value::iter(budget, "generator", lists)
}

/// As many lists.
fn slice(run: &Run, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let [slices, fill] = args.bind("slice", ["slices", "fill_with"], 1)?;
    let (slices, fill) = (count(slices)?, given(fill));
    let all = items(budget, value)?;
    budget.values(slices)?;
    let (each, longer) = (all.len().checked_div(slices).unwrap_or(0), all.len().checked_rem(slices).unwrap_or(0));
    let mut lists = Vec::with_capacity(slices);
    let mut from = 0;
    for index in 0..slices {
        let end = from + each + usize::from(index < longer);
        let mut list = all[from..end].to_vec();
        list.extend(fill.clone().filter(|_| index >= longer));
        lists.push(Value::list(budget, list)?);
        from = end;
    }
    Value::iter(budget, "generator", lists)
}
