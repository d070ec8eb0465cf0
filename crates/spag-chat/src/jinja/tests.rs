//! Tests: what follows `is`.

use super::arguments::Args;
use super::ast::Comparison;
use super::error::{Error, Result, fail};
use super::filters;
use super::run::Run;
use super::value::{Text, Value, binary, compare, text};

/// Names of all tests.
const NAMES: [&str; 39] = [
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// Whether a value passes a test.
pub(crate) fn test(run: &Run, name: &str, value: &Value, args: Args) -> Result<bool> {
    let budget = &run.budget;
    let compared = match name {
        "eq" | "==" | "equalto" => Some(Comparison::Equal),
        "ne" | "!=" => Some(Comparison::Unequal),
        "lt" | "<" | "lessthan" => Some(Comparison::Less),
        "le" | "<=" => Some(Comparison::LessEqual),
        "gt" | ">" | "greaterthan" => Some(Comparison::Greater),
        "ge" | ">=" => Some(Comparison::GreaterEqual),
        "in" => Some(Comparison::In),
        _ => None,
    };
    if let Some(operator) = compared {
        let [other] = args.bind(name, ["other"], 1)?;
        return compare(budget, operator, value, &other.unwrap_or(Value::None));
    }
    if matches!(name, "divisibleby" | "sameas") {
        let [other] = args.bind(name, ["other"], 1)?;
        let other = other.unwrap_or(Value::None);
        if name == "sameas" {
            return Ok(is_same(value, &other));
        }
        let rest = binary(budget, super::ast::Binary::Remainder, value, &other)?;
        return compare(budget, Comparison::Equal, &rest, &Value::Int(0));
    }
    args.none(name)?;
    Ok(match name {
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "callable" => matches!(
            value,
            Value::Macro(_)
                | Value::Function(_)
                | Value::Method(_)
                | Value::Joiner(_)
                | Value::Loop(_)
                | Value::Undefined(_)
        ),
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "escaped" => matches!(value, Value::Text(Text { markup: true, .. })),
        "even" | "odd" => {
            let rest = binary(budget, super::ast::Binary::Remainder, value, &Value::Int(2))?;
            compare(budget, Comparison::Equal, &rest, &Value::Int((name == "odd").into()))?
        }
        "filter" => filters::NAMES.contains(&value.str()?),
        "test" => NAMES.contains(&value.str()?),
        "float" => matches!(value, Value::Float(_)),
        "integer" => matches!(value, Value::Int(_)),
        "number" => value.as_float().is_some(),
        "iterable" => is_iterable(value)?,
        "lower" | "upper" => {
            let text = text(budget, value)?;
            let (small, capital) = (text.contains(char::is_lowercase), text.contains(char::is_uppercase));
            if name == "lower" { small && !capital } else { capital && !small }
        }
        "mapping" => matches!(value, Value::Dict(_)),
        "none" => matches!(value, Value::None),
        "sequence" => is_sequence(value),
        "string" => matches!(value, Value::Text(_)),
        _ => return fail!("No test named {}.", super::value::quoted(name)),
    })
}

/// Whether it has a length and items.
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

/// Whether two values are one object. Python has one of each small integer and of each short text.
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
