//! Filters that take attributes, other filters or tests.

use super::attributes::{by_path, is_set};
use super::filter as apply;
use crate::jinja::access;
use crate::jinja::arguments::Args;
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::run::Run;
use crate::jinja::tests::test;
use crate::jinja::value::{Value, items};

pub(super) fn filter(run: &Run, name: &str, value: Value, args: Args) -> Result<Value> {
    match name {
        "attr" => {
            let [name] = args.bind("attr", ["name"], 1)?;
            let name = name.unwrap_or(Value::None);
            // Attributes only, no items.
            let is_item = value.entry(&run.budget, &name).is_some();
            let found = access::attribute(run, &value, name.str()?)?;
            Ok(if is_item && !matches!(found, Value::Method(_)) { run.undefined("no such attribute") } else { found })
        }
        "d" | "default" => {
            let [default, boolean] = args.bind("default", ["default_value", "boolean"], 0)?;
            let is_replaced = value.is_undefined() || is_set(boolean.as_ref())? && !value.truth()?;
            Ok(if is_replaced { default.unwrap_or_else(|| Value::plain("")) } else { value })
        }
        "map" => map(run, &value, args),
        _ => select(run, name, &value, args),
    }
}

fn map(run: &Run, value: &Value, mut args: Args) -> Result<Value> {
    let all = items(&run.budget, value)?;
    let mut mapped = Vec::with_capacity(all.len());
    if args.positional.is_empty() {
        let [attribute, default] = args.bind("map", ["attribute", "default"], 0)?;
        let attribute = attribute.ok_or_else(|| Error::new("map requires a filter argument"))?;
        for item in &all {
            mapped.push(by_path(run, item, Some(&attribute), default.as_ref())?);
        }
    } else {
        let name = args.positional.remove(0);
        let name = name.str()?;
        for item in all {
            run.budget.values(args.positional.len() + args.named.len())?;
            let each = Args { positional: args.positional.clone(), named: args.named.clone() };
            mapped.push(apply(run, name, item, each)?);
        }
    }
    Value::iter(&run.budget, "generator", mapped)
}

fn select(run: &Run, filter: &str, value: &Value, mut args: Args) -> Result<Value> {
    let attribute = if filter.ends_with("attr") {
        if args.positional.is_empty() {
            return fail!("Missing parameter for attribute name");
        }
        Some(args.positional.remove(0))
    } else {
        None
    };
    let name = if args.positional.is_empty() { None } else { Some(args.positional.remove(0)) };
    let is_kept = filter.starts_with("select");
    let mut kept = Vec::new();
    for item in items(&run.budget, value)? {
        let tested = by_path(run, &item, attribute.as_ref(), None)?;
        let passes = match &name {
            None => tested.truth()?,
            Some(name) => {
                run.budget.values(args.positional.len() + args.named.len())?;
                let each = Args { positional: args.positional.clone(), named: args.named.clone() };
                test(run, name.str()?, &tested, each)?
            }
        };
        if passes == is_kept {
            kept.push(item);
        }
    }
    Value::iter(&run.budget, "generator", kept)
}
