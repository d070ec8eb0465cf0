//! Filters that take attributes, other filters or tests.

use super::filter;
use super::paths::by_path;
use crate::jinja::access::attribute;
use crate::jinja::call::Call;
use crate::jinja::error::{Error, Result};
use crate::jinja::tests::test;
use crate::jinja::value::{Value, items};

/// Looks up attributes only, not items.
pub(super) fn attr(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let name = call.arg(0);
    let is_item = value.entry(call.budget, name).is_some();
    let found = attribute(call.run, value, name.str()?)?;
    Ok(if is_item && !matches!(found, Value::Method(_)) { call.run.undefined("no such attribute") } else { found })
}

pub(super) fn default(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let is_replaced = value.is_undefined() || call.is_set(1)? && !value.truth()?;
    let default = || call.passed(0).cloned().unwrap_or_else(|| Value::plain(""));
    Ok(if is_replaced { default() } else { value.clone() })
}

pub(super) fn map(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let all = items(call.budget, value)?;
    let name = call.rest.next();
    if name.is_none() {
        call.bind("attribute? default?")?;
        call.passed(0).ok_or_else(|| Error::new("map requires a filter argument"))?;
    }
    let one = |item: Value| match &name {
        Some(name) => filter(call.run, name.str()?, &item, call.rest.copy(call.budget)?),
        None => by_path(call.run, &item, call.passed(0), call.passed(1)),
    };
    Value::iter(call.budget, "generator", all.into_iter().map(one).collect::<Result<_>>()?)
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
pub(super) fn select(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let missing = || Error::new("Missing parameter for attribute name");
    let has_path = call.name.ends_with("attr");
    let path = if has_path { Some(call.rest.next().ok_or_else(missing)?) } else { None };
    let name = call.rest.next();
    let mut kept = Vec::new();
    for item in items(call.budget, value)? {
        let tested = by_path(call.run, &item, path.as_ref(), None)?;
        let passes = match &name {
            None => tested.truth()?,
            Some(name) => test(call.run, name.str()?, &tested, call.rest.copy(call.budget)?)?,
        };
        if passes == call.name.starts_with("select") {
            kept.push(item);
        }
    }
    Value::iter(call.budget, "generator", kept)
}
