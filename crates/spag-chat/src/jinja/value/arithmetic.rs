//! Operators of numbers, texts and lists.

use super::{Text, Value, items};
use crate::jinja::ast::Binary;
use crate::jinja::budget::Budget;
use crate::jinja::error::{Result, fail};
use crate::jinja::text::{escape_value, percent};

/// `a operator b`.
pub(crate) fn binary(budget: &Budget, operator: Binary, a: &Value, b: &Value) -> Result<Value> {
    if let (Binary::Remainder, Value::Text(format)) = (operator, a.defined()?) {
        return percent(budget, format, b);
    }
    b.defined()?;
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
        return ints(operator, a, b);
    }
    if let (Some(a), Some(b)) = (a.as_float(), b.as_float()) {
        return floats(operator, a, b).map(Value::Float);
    }
    match (operator, a, b) {
        (Binary::Add, Value::Text(a), Value::Text(b)) => {
            let markup = a.markup || b.markup;
            let half =
                |text: &Text| if markup { escape_value(budget, &Value::Text(text.clone())) } else { Ok(text.clone()) };
            let (a, b) = (half(a)?, half(b)?);
            budget.text(a.text.len() + b.text.len())?;
            Value::made(budget, [&*a.text, &*b.text].concat(), markup)
        }
        (Binary::Add, Value::List(_), Value::List(_)) => {
            Value::list(budget, [items(budget, a)?, items(budget, b)?].concat())
        }
        (Binary::Add, Value::Tuple(_), Value::Tuple(_)) => {
            Value::tuple(budget, [items(budget, a)?, items(budget, b)?].concat())
        }
        (Binary::Multiply, value, times) if times.as_int().is_some() => repeat(budget, value, times.int()?),
        (Binary::Multiply, times, value) if times.as_int().is_some() => repeat(budget, value, times.int()?),
        _ => fail!("unsupported operand type(s) for {}: '{}' and '{}'", sign(operator), a.type_name(), b.type_name()),
    }
}

fn repeat(budget: &Budget, value: &Value, times: i128) -> Result<Value> {
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    match value {
        Value::Text(text) => {
            budget.text(text.text.len().saturating_mul(times))?;
            Value::made(budget, text.text.repeat(times), text.markup)
        }
        Value::List(seq) | Value::Tuple(seq) => {
            budget.values(seq.items.len().saturating_mul(times))?;
            let len = seq.items.len().saturating_mul(times);
            let all = seq.items.iter().cycle().take(len).cloned().collect();
            if matches!(value, Value::List(_)) { Value::list(budget, all) } else { Value::tuple(budget, all) }
        }
        other => fail!("can't multiply '{}' by an integer", other.type_name()),
    }
}

fn sign(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::FloorDivide => "//",
        Binary::Remainder => "%",
        Binary::Power => "** or pow()",
    }
}

fn ints(operator: Binary, a: i128, b: i128) -> Result<Value> {
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide if b == 0 => return fail!("division by zero"),
        Binary::Divide => return Ok(Value::Float(a as f64 / b as f64)),
        Binary::FloorDivide | Binary::Remainder if b == 0 => return fail!("integer division or modulo by zero"),
        Binary::FloorDivide => {
            let quotient = a.checked_div(b);
            quotient.map(|quotient| if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
        }
        Binary::Remainder => {
            let rest = a.checked_rem(b).unwrap_or(0);
            Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        }
        Binary::Power if b < 0 => return floats(operator, a as f64, b as f64).map(Value::Float),
        Binary::Power => match (a, u32::try_from(b)) {
            (0 | 1, _) => Some(if b == 0 { 1 } else { a }),
            (-1, _) => Some(if b % 2 == 0 { 1 } else { -1 }),
            (_, Ok(b)) => a.checked_pow(b),
            _ => None,
        },
    };
    match result {
        Some(result) => Ok(Value::Int(result)),
        None => fail!("the result of {} has more than 127 bits", sign(operator)),
    }
}

fn floats(operator: Binary, a: f64, b: f64) -> Result<f64> {
    if b == 0.0 && matches!(operator, Binary::Divide | Binary::FloorDivide | Binary::Remainder) {
        return fail!("float division by zero");
    }
    Ok(match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::FloorDivide => divided(a, b).0,
        Binary::Remainder => divided(a, b).1,
        Binary::Power => {
            if a == 0.0 && b < 0.0 {
                return fail!("0.0 cannot be raised to a negative power");
            }
            if a < 0.0 && b.fract() != 0.0 && a.is_finite() && b.is_finite() {
                return fail!("a power is a complex number");
            }
            let power = a.powf(b);
            if power.is_infinite() && a.is_finite() && b.is_finite() {
                return fail!("the result of ** is too large");
            }
            power
        }
    })
}

/// Python's `divmod`: the remainder has the sign of the divisor.
fn divided(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(b);
    } else if (b < 0.0) != (rest < 0.0) {
        rest += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), rest);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

/// `-value`.
pub(crate) fn negative(value: &Value) -> Result<Value> {
    match (value.defined()?, value.as_int()) {
        (Value::Float(value), _) => Ok(Value::Float(-value)),
        (_, Some(int)) => match int.checked_neg() {
            Some(int) => Ok(Value::Int(int)),
            None => fail!("the result of - has more than 127 bits"),
        },
        (other, None) => fail!("bad operand type for unary -: '{}'", other.type_name()),
    }
}

/// `+value`.
pub(crate) fn positive(value: &Value) -> Result<Value> {
    match (value.defined()?, value.as_int()) {
        (Value::Float(value), _) => Ok(Value::Float(*value)),
        (_, Some(int)) => Ok(Value::Int(int)),
        (other, None) => fail!("bad operand type for unary +: '{}'", other.type_name()),
    }
}

/// `10 ** exponent` as a float.
pub(crate) fn power_of_ten(exponent: i128) -> f64 {
    i32::try_from(exponent).map_or(if exponent < 0 { 0.0 } else { f64::INFINITY }, |exponent| {
        format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
    })
}
