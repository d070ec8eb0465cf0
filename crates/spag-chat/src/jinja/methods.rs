//! Methods of non-text values.

use std::rc::Rc;

use super::call::{Call, Entry};
use super::error::{Result, fail};
use super::text;
use super::value::{Key, Shared, Value, View, equal, items};

const CYCLER: &[Entry<Value>] = &[Entry("next", "", next), Entry("reset", "", reset)];
const DICT: &[Entry<Value>] = &[
    Entry("copy", "", copy),
    Entry("fromkeys", "iterable value?", from_keys),
    Entry("get", "key default?", get),
    Entry("items", "", view),
    Entry("keys", "", view),
    Entry("values", "", view),
];
const FLOAT: &[Entry<Value>] = &[Entry("conjugate", "", copy), Entry("is_integer", "", is_integer)];
const INT: &[Entry<Value>] =
    &[Entry("bit_count", "", bits), Entry("bit_length", "", bits), Entry("conjugate", "", copy)];
const LIST: &[Entry<Value>] =
    &[Entry("copy", "", copy), Entry("count", "value start? stop?", find), Entry("index", "value start? stop?", find)];
const LOOP: &[Entry<Value>] = &[Entry("changed", "*", changed), Entry("cycle", "*", cycle)];
const OF_DICT: &[Entry<Value>] = &[Entry("fromkeys", "iterable value?", from_keys)];
const TUPLE: &[Entry<Value>] =
    &[Entry("count", "value start? stop?", find), Entry("index", "value start? stop?", find)];

/// The methods of a value.
pub(crate) fn methods(value: &Value) -> &'static [Entry<Value>] {
    match value {
        Value::Text(_) => text::methods::METHODS,
        Value::List(_) => LIST,
        Value::Tuple(_) | Value::Range(_) => TUPLE,
        Value::Dict(_) => DICT,
        Value::Bool(_) | Value::Int(_) => INT,
        Value::Float(_) => FLOAT,
        Value::Loop(_) => LOOP,
        Value::Cycler(_) => CYCLER,
        Value::Function("dict") => OF_DICT,
        _ => &[],
    }
}

fn copy(_: &mut Call<'_>, value: &Value) -> Result<Value> {
    Ok(value.clone())
}

/// `index` and `count`.
fn find(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let all = items(call.budget, value)?;
    let place = |argument, default| call.passed(argument).map_or(Ok(default), |at| at.place(all.len()));
    let (start, end) = (place(1, 0)?, place(2, all.len())?);
    let mut count = 0;
    for (index, item) in all.iter().enumerate().take(end).skip(start) {
        if equal(call.budget, item, call.arg(0))? {
            if call.name == "index" {
                return Ok(Value::Int(index as i128));
            }
            count += 1;
        }
    }
    if call.name == "index" { fail!("the value is not in the {}", value.type_name()) } else { Ok(Value::Int(count)) }
}

/// `keys`, `values` and `items`.
fn view(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let Value::Dict(dict) = value else { return Ok(Value::None) };
    let view = match call.name {
        "keys" => View::Keys,
        "values" => View::Values,
        _ => View::Items,
    };
    Ok(Value::View(view, Rc::clone(dict)))
}

fn get(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Key::new(call.budget, call.arg(0).clone())?;
    Ok(value.entry(call.budget, call.arg(0)).unwrap_or_else(|| call.arg(1).clone()))
}

fn from_keys(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    let keys = items(call.budget, call.arg(0))?;
    Value::dict(call.budget, keys.into_iter().map(|key| (key, call.arg(1).clone())))
}

/// `bit_length` and `bit_count`.
fn bits(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let size = value.int()?.unsigned_abs();
    let bits = if call.name == "bit_count" { size.count_ones() } else { u128::BITS - size.leading_zeros() };
    Ok(Value::Int(bits.into()))
}

fn is_integer(_: &mut Call<'_>, value: &Value) -> Result<Value> {
    Ok(Value::Bool(value.as_float().is_some_and(|float| float.fract() == 0.0)))
}

fn cycle(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    match (value, call.rest.positional.len()) {
        (Value::Loop(state), len @ 1..) => Ok(call.rest.positional[state.at.get() % len].clone()),
        _ => fail!("no items for cycling given"),
    }
}

fn changed(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let Value::Loop(state) = value else { return Ok(Value::None) };
    let value = Value::tuple(call.budget, std::mem::take(&mut call.rest.positional))?;
    let is_same = match &*state.changed.borrow() {
        Some(last) => equal(call.budget, last, &value)?,
        None => false,
    };
    if state.changed.borrow().is_none() {
        call.run.registry.add(call.budget, Shared::Loop(Rc::clone(state)))?;
    }
    let old = state.changed.replace(Some(value));
    drop(old);
    Ok(Value::Bool(!is_same))
}

fn next(_: &mut Call<'_>, value: &Value) -> Result<Value> {
    let Value::Cycler(cycler) = value else { return Ok(Value::None) };
    let at = cycler.at.get();
    cycler.at.set((at + 1) % cycler.items.items.len());
    Ok(cycler.items.items[at].clone())
}

fn reset(_: &mut Call<'_>, value: &Value) -> Result<Value> {
    if let Value::Cycler(cycler) = value {
        cycler.at.set(0);
    }
    Ok(Value::None)
}
