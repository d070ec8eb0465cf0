//! Filters that compare the items of a list.

use super::attributes::{by_path, folded, is_set};
use crate::jinja::arguments::{Args, given};
use crate::jinja::ast::Comparison;
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{Dict, Key, Value, View, compare, equal, items};

pub(super) fn filter(run: &Run, name: &str, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    match name {
        "sort" => {
            let [reverse, case, attribute] = args.bind(name, ["reverse", "case_sensitive", "attribute"], 0)?;
            let (case, attribute) = (is_set(case.as_ref())?, given(attribute));
            let mut keyed = Vec::new();
            for item in items(budget, value)? {
                keyed.push((sort_key(run, &item, attribute.as_ref(), case)?, item));
            }
            let sorted = sorted(run, keyed, is_set(reverse.as_ref())?)?;
            Value::list(budget, sorted.into_iter().map(|(_, item)| item).collect())
        }
        "dictsort" => {
            let [case, by, reverse] = args.bind(name, ["case_sensitive", "by", "reverse"], 0)?;
            let Value::Dict(dict) = value else { return fail!("'{}' object has no items", value.type_name()) };
            let place = match by.as_ref().map(Value::str).transpose()? {
                None | Some("key") => 0,
                Some("value") => 1,
                Some(_) => return fail!("You can only sort by either \"key\" or \"value\""),
            };
            let case = is_set(case.as_ref())?;
            let mut keyed = Vec::new();
            for pair in items(budget, &Value::View(View::Items, dict.clone()))? {
                let by = by_path(run, &pair, Some(&Value::Int(place)), None)?;
                keyed.push((folded(run, by, case)?, pair));
            }
            let sorted = sorted(run, keyed, is_set(reverse.as_ref())?)?;
            Value::list(budget, sorted.into_iter().map(|(_, pair)| pair).collect())
        }
        "groupby" => group_by(run, value, args),
        "unique" => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"], 0)?;
            let (case, attribute) = (is_set(case.as_ref())?, given(attribute));
            let (mut seen, mut kept) = (Dict::default(), Vec::new());
            for item in items(budget, value)? {
                let key = folded(run, by_path(run, &item, attribute.as_ref(), None)?, case)?;
                let key = Key::new(budget, key)?;
                if seen.get(&key).is_none() {
                    seen.insert(budget, key, Value::None)?;
                    kept.push(item);
                }
            }
            Value::iter(budget, "generator", kept)
        }
        _ => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"], 0)?;
            let (case, attribute) = (is_set(case.as_ref())?, given(attribute));
            let operator = if name == "min" { Comparison::Less } else { Comparison::Greater };
            let mut best: Option<(Value, Value)> = None;
            for item in items(budget, value)? {
                let key = folded(run, by_path(run, &item, attribute.as_ref(), None)?, case)?;
                let is_better = match &best {
                    Some((other, _)) => compare(budget, operator, &key, other)?,
                    None => true,
                };
                if is_better {
                    best = Some((key, item));
                }
            }
            Ok(best.map_or_else(|| run.undefined("No aggregated item, sequence was empty."), |(_, item)| item))
        }
    }
}

/// The list that an item is sorted by: of one attribute, or of several with commas between.
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

/// The items in the order of their keys. Equal ones keep their order. Comparisons can fail, so it is no sort of the standard
/// library.
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

fn group_by(run: &Run, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let [attribute, default, case] = args.bind("groupby", ["attribute", "default", "case_sensitive"], 1)?;
    let case = is_set(case.as_ref())?;
    let mut keyed = Vec::new();
    for item in items(budget, value)? {
        let key = by_path(run, &item, attribute.as_ref(), default.as_ref())?;
        keyed.push((folded(run, key, case)?, item));
    }
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in sorted(run, keyed, false)? {
        match groups.last_mut() {
            Some((last, group)) if equal(budget, last, &key)? => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut pairs = Vec::with_capacity(groups.len());
    for (_, group) in groups {
        // The key as the first item has it, not in small letters.
        let own = by_path(run, &group[0], attribute.as_ref(), default.as_ref())?;
        pairs.push(Value::group(budget, own, Value::list(budget, group)?)?);
    }
    Value::list(budget, pairs)
}
