//! Attributes and items of values, with the rules of Jinja's sandbox.

use super::call::Entry;
use super::error::Result;
use super::methods::methods;
use super::run::Run;
use super::value::{Loop, Method, Value, item, quoted};

/// Mutating methods of lists and dicts, which the sandbox forbids.
const CHANGING: [&str; 13] = [
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
];

/// `value.name`: a Python attribute, else the item of that name.
pub(crate) fn attribute(run: &Run, value: &Value, name: &str) -> Result<Value> {
    run.budget.work(name.len())?;
    if let Some(found) = own_attribute(run, value, name)? {
        return Ok(found);
    }
    if let Some(found) = value.entry(&run.budget, &Value::plain(name)) {
        return Ok(found);
    }
    Ok(missing(run, value, name))
}

/// `value[key]`: an item, or else the attribute of that name.
pub(crate) fn subscript(run: &Run, value: &Value, key: &Value) -> Result<Value> {
    run.budget.work(1)?;
    if let Some(found) = value.defined()?.entry(&run.budget, key) {
        return Ok(found);
    }
    if let Some(index) = key.as_int() {
        if let Some(found) = item(&run.budget, value, index)? {
            return Ok(found);
        }
        return Ok(run.undefined(format!("{} object has no element {index}", value.type_name())));
    }
    match key.as_text() {
        Some(name) => match own_attribute(run, value, name)? {
            Some(found) => Ok(found),
            None => Ok(missing(run, value, name)),
        },
        None => Ok(run.undefined(format!("{} object has no such element", value.type_name()))),
    }
}

fn missing(run: &Run, value: &Value, name: &str) -> Value {
    if matches!(value, Value::List(_) | Value::Dict(_)) && CHANGING.contains(&name) {
        return run.undefined(format!(
            "access to attribute {} of '{}' object is unsafe.",
            quoted(name),
            value.type_name()
        ));
    }
    let name: String = name.chars().take(100).collect();
    run.undefined(match value {
        Value::None => format!("None has no attribute {}", quoted(&name)),
        value => format!("'{} object' has no attribute {}", value.type_name(), quoted(&name)),
    })
}

/// An attribute of the value's type.
fn own_attribute(run: &Run, value: &Value, name: &str) -> Result<Option<Value>> {
    let found = match value.defined()? {
        Value::Tuple(seq) => {
            let place = ["grouper", "list"].iter().position(|own| *own == name).filter(|_| seq.is_group);
            place.and_then(|place| seq.items.get(place).cloned())
        }
        Value::Range(range) => match name {
            "start" => Some(Value::Int(range.begin)),
            "stop" => Some(Value::Int(range.end)),
            "step" => Some(Value::Int(range.step)),
            _ => None,
        },
        Value::Bool(_) | Value::Int(_) => match name {
            "real" | "numerator" => Some(Value::Int(value.int()?)),
            "imag" => Some(Value::Int(0)),
            "denominator" => Some(Value::Int(1)),
            _ => None,
        },
        Value::Float(float) => match name {
            "real" => Some(Value::Float(*float)),
            "imag" => Some(Value::Float(0.0)),
            _ => None,
        },
        Value::Namespace(namespace) => namespace.values.borrow().get(name).cloned(),
        Value::Loop(state) => loop_attribute(run, state, name),
        Value::Macro(made) => {
            let definition = &made.definition;
            match name {
                "name" => Some(Value::text(&run.budget, definition.name.clone())?),
                "arguments" => {
                    let names = definition.parameters.iter().map(|(name, _)| Value::text(&run.budget, name.clone()));
                    Some(Value::tuple(&run.budget, names.collect::<Result<_>>()?)?)
                }
                "catch_varargs" => Some(Value::Bool(definition.uses.varargs)),
                "catch_kwargs" => Some(Value::Bool(definition.uses.kwargs)),
                "caller" => Some(Value::Bool(definition.uses.caller)),
                _ => None,
            }
        }
        Value::Cycler(cycler) if name == "current" => cycler.items.items.get(cycler.at.get()).cloned(),
        _ => None,
    };
    match Entry::find(methods(value), name) {
        Some(method) if found.is_none() => Method::of(&run.budget, value, method.0).map(Some),
        _ => Ok(found),
    }
}

fn loop_attribute(run: &Run, state: &Loop, name: &str) -> Option<Value> {
    let (at, len) = (state.at.get(), state.items.items.len());
    let neighbour = |index: Option<usize>, which: &str| match index.and_then(|index| state.items.items.get(index)) {
        Some(item) => item.clone(),
        None => run.undefined(format!("there is no {which} item")),
    };
    Some(match name {
        "index" => Value::Int(at as i128 + 1),
        "index0" => Value::Int(at as i128),
        "revindex" => Value::Int(len as i128 - at as i128),
        "revindex0" => Value::Int(len as i128 - at as i128 - 1),
        "first" => Value::Bool(at == 0),
        "last" => Value::Bool(at + 1 == len),
        "length" => Value::Int(len as i128),
        "depth" => Value::Int(state.depth as i128 + 1),
        "depth0" => Value::Int(state.depth as i128),
        "previtem" => neighbour(at.checked_sub(1), "previous"),
        "nextitem" => neighbour(Some(at + 1), "next"),
        _ => return None,
    })
}
