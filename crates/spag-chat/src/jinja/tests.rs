//! Tests: `value is name`.

use super::ast::{Binary, Comparison};
use super::call::{Args, Call, Entry};
use super::error::{Error, Result, fail};
use super::filters::FILTERS;
use super::run::Run;
use super::value::{Text, Value, binary, compare, quoted, text};

/// All tests.
const TESTS: &[Entry<bool>] = &[
    Entry("!=", "other", compared),
    Entry("<", "other", compared),
    Entry("<=", "other", compared),
    Entry("==", "other", compared),
    Entry(">", "other", compared),
    Entry(">=", "other", compared),
    Entry("boolean", "", |_, value| Ok(matches!(value, Value::Bool(_)))),
    Entry("callable", "", |_, value| Ok(is_callable(value))),
    Entry("defined", "", |_, value| Ok(!value.is_undefined())),
    Entry("divisibleby", "other", |call, value| has_rest(call, value, call.arg(0), 0)),
    Entry("eq", "other", compared),
    Entry("equalto", "other", compared),
    Entry("escaped", "", |_, value| Ok(matches!(value, Value::Text(Text { markup: true, .. })))),
    Entry("even", "", |call, value| has_rest(call, value, &Value::Int(2), 0)),
    Entry("false", "", |_, value| Ok(matches!(value, Value::Bool(false)))),
    Entry("filter", "", |_, value| Ok(Entry::find(FILTERS, value.str()?).is_some())),
    Entry("float", "", |_, value| Ok(matches!(value, Value::Float(_)))),
    Entry("ge", "other", compared),
    Entry("greaterthan", "other", compared),
    Entry("gt", "other", compared),
    Entry("in", "other", compared),
    Entry("integer", "", |_, value| Ok(matches!(value, Value::Int(_)))),
    Entry("iterable", "", |_, value| is_iterable(value)),
    Entry("le", "other", compared),
    Entry("lessthan", "other", compared),
    Entry("lower", "", |call, value| has_cases(call, value, char::is_lowercase, char::is_uppercase)),
    Entry("lt", "other", compared),
    Entry("mapping", "", |_, value| Ok(matches!(value, Value::Dict(_)))),
    Entry("ne", "other", compared),
    Entry("none", "", |_, value| Ok(matches!(value, Value::None))),
    Entry("number", "", |_, value| Ok(value.as_float().is_some())),
    Entry("odd", "", |call, value| has_rest(call, value, &Value::Int(2), 1)),
    Entry("sameas", "other", |call, value| Ok(is_same(value, call.arg(0)))),
    Entry("sequence", "", |_, value| Ok(is_sequence(value))),
    Entry("string", "", |_, value| Ok(matches!(value, Value::Text(_)))),
    Entry("test", "", |_, value| Ok(Entry::find(TESTS, value.str()?).is_some())),
    Entry("true", "", |_, value| Ok(matches!(value, Value::Bool(true)))),
    Entry("undefined", "", |_, value| Ok(value.is_undefined())),
    Entry("upper", "", |call, value| has_cases(call, value, char::is_uppercase, char::is_lowercase)),
];

/// Whether a value passes a test.
pub(crate) fn test(run: &Run, name: &str, value: &Value, args: Args) -> Result<bool> {
    match Entry::find(TESTS, name) {
        Some(test) => test.call(run, value, args),
        None => fail!("No test named {}.", quoted(name)),
    }
}

fn compared(call: &mut Call<'_>, value: &Value) -> Result<bool> {
    let operator = match call.name {
        "eq" | "==" | "equalto" => Comparison::Equal,
        "ne" | "!=" => Comparison::Unequal,
        "lt" | "<" | "lessthan" => Comparison::Less,
        "le" | "<=" => Comparison::LessEqual,
        "gt" | ">" | "greaterthan" => Comparison::Greater,
        "ge" | ">=" => Comparison::GreaterEqual,
        _ => Comparison::In,
    };
    compare(call.budget, operator, value, call.arg(0))
}

/// Whether a division has this remainder.
fn has_rest(call: &Call<'_>, value: &Value, by: &Value, rest: i128) -> Result<bool> {
    let found = binary(call.budget, Binary::Remainder, value, by)?;
    compare(call.budget, Comparison::Equal, &found, &Value::Int(rest))
}

/// Whether a text has letters of one case and none of the other.
fn has_cases(call: &Call<'_>, value: &Value, one: fn(char) -> bool, other: fn(char) -> bool) -> Result<bool> {
    let text = text(call.budget, value)?;
    Ok(text.contains(one) && !text.contains(other))
}

fn is_callable(value: &Value) -> bool {
    matches!(
        value,
        Value::Macro(_)
            | Value::Function(_)
            | Value::Method(_)
            | Value::Joiner(_)
            | Value::Loop(_)
            | Value::Undefined(_)
    )
}

/// Whether a value has a length and items.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value,
        Value::Text(_) | Value::List(_) | Value::Tuple(_) | Value::Dict(_) | Value::Range(_) | Value::Undefined(_)
    )
}

fn is_iterable(value: &Value) -> Result<bool> {
    match value {
        Value::Undefined(undefined) if undefined.strict => Err(Error::new(undefined.why.clone())),
        value => Ok(is_sequence(value) || matches!(value, Value::View(..) | Value::Iter(_) | Value::Loop(_))),
    }
}

/// Whether two values are the same object. Python has one object per small integer and short text.
fn is_same(a: &Value, b: &Value) -> bool {
    use std::rc::Rc;
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b && (-5..=256).contains(a),
        (Value::Text(a), Value::Text(b)) => {
            std::sync::Arc::ptr_eq(&a.text, &b.text) || a.text == b.text && a.text.len() < 2
        }
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => Rc::ptr_eq(a, b),
        (Value::Dict(a), Value::Dict(b)) => Rc::ptr_eq(a, b),
        (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
        (Value::Function(a), Value::Function(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod order {
    use super::*;
    use crate::jinja::eval::FUNCTIONS;
    use crate::jinja::text::methods::METHODS;

    fn is_sorted<R>(table: &[Entry<R>]) -> bool {
        table.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }

    #[test]
    fn tables_are_in_the_order_of_names() {
        assert!(is_sorted(TESTS) && is_sorted(FILTERS) && is_sorted(METHODS) && is_sorted(FUNCTIONS));
    }
}
