//! Filters of numbers.

use super::paths::by_path;
use crate::jinja::ast::Binary;
use crate::jinja::call::Call;
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::text::is_space;
use crate::jinja::value::{Value, binary, items, power_of_ten};

pub(super) fn abs(_: &mut Call<'_>, value: &Value) -> Result<Value> {
    match (value.defined()?, value.as_int()) {
        (Value::Float(float), _) => Ok(Value::Float(float.abs())),
        (_, Some(int)) => Ok(Value::Int(int.saturating_abs())),
        (other, None) => fail!("bad operand type for abs(): '{}'", other.type_name()),
    }
}

pub(super) fn int(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let base = call.int(1, 10)?;
    let int = match value.defined()? {
        Value::Text(text) => {
            call.budget.work(text.text.len())?;
            parse_int(&text.text, base)?.or_else(|| truncated(parse_float(&text.text)?))
        }
        Value::Float(float) => truncated(*float),
        other => other.as_int(),
    };
    Ok(int.map_or_else(|| call.passed(0).cloned().unwrap_or(Value::Int(0)), Value::Int))
}

/// A number, or a text that is a number, as a float.
fn as_float(value: &Value) -> Result<Option<f64>> {
    Ok(match value.defined()? {
        Value::Text(text) => parse_float(&text.text),
        other => other.as_float(),
    })
}

pub(super) fn float(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let default = || call.passed(0).cloned().unwrap_or(Value::Float(0.0));
    Ok(as_float(value)?.map_or_else(default, Value::Float))
}

pub(super) fn filesizeformat(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let size = as_float(value)?.ok_or_else(|| Error::new("filesizeformat takes a number"))?;
    Value::text(call.budget, file_size(size, call.is_set(0)?))
}

pub(super) fn sum(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let mut sum = call.passed(1).cloned().unwrap_or(Value::Int(0));
    if sum.as_text().is_some() {
        return fail!("sum() can't sum strings [use ''.join(seq) instead]");
    }
    for item in items(call.budget, value)? {
        let item = by_path(call.run, &item, call.given(0), None)?;
        sum = binary(call.budget, Binary::Add, &sum, &item)?;
    }
    Ok(sum)
}

fn truncated(float: f64) -> Option<i128> {
    (float.abs() < 1.7e38).then_some(float as i128)
}

/// `int(text, base)`; `None` if Python raises a `ValueError`.
fn parse_int(text: &str, base: i128) -> Result<Option<i128>> {
    let text = text.trim_matches(is_space);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = |letters: [char; 2]| digits.strip_prefix('0').and_then(|rest| rest.strip_prefix(letters));
    let prefixed = [(2, ['b', 'B']), (8, ['o', 'O']), (16, ['x', 'X'])].into_iter();
    let prefixed = prefixed.filter_map(|(radix, letters)| Some((radix, prefix(letters)?)));
    let (radix, digits) = match prefixed.into_iter().find(|(radix, _)| i128::from(*radix) == base || base == 0) {
        Some((radix, rest)) => (radix, rest.strip_prefix('_').unwrap_or(rest)),
        None if base == 0 => (10, digits),
        None => match u32::try_from(base) {
            Ok(radix @ 2..=36) => (radix, digits),
            _ => return Ok(None),
        },
    };
    let is_grouped = !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || !is_grouped || !digits.chars().all(|c| c.is_digit(radix)) {
        return Ok(None);
    }
    match i128::from_str_radix(&digits, radix) {
        Ok(size) => Ok(Some(if is_negative { -size } else { size })),
        Err(_) => fail!("the integer has more than 127 bits"),
    }
}

/// `float(text)`; `None` if Python raises a `ValueError`.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let is_grouped = text.contains('_');
    let digits = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let is_valid = !is_grouped
        || text
            .match_indices('_')
            .all(|(at, _)| digits(text[..at].chars().last()) && digits(text[at + 1..].chars().next()));
    if is_valid { text.replace('_', "").parse().ok() } else { None }
}

pub(super) fn round(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let precision = call.int(0, 0)?;
    let Some(float) = value.defined()?.as_float() else {
        return fail!("type {} doesn't define __round__ method", value.type_name());
    };
    let unit = power_of_ten(precision);
    match call.passed(1).map_or(Ok("common"), Value::str)? {
        "common" => {}
        "ceil" => return Ok(Value::Float((float * unit).ceil() / unit + 0.0)),
        "floor" => return Ok(Value::Float((float * unit).floor() / unit + 0.0)),
        _ => return fail!("method must be common, ceil or floor"),
    }
    if let Some(int) = value.as_int() {
        let Some(unit) = u32::try_from(precision.saturating_neg()).ok().filter(|digits| *digits > 0) else {
            return Ok(Value::Int(int));
        };
        // Rounds half to even.
        let Some(unit) = 10_i128.checked_pow(unit) else { return Ok(Value::Int(0)) };
        let (floor, rest) = (int.div_euclid(unit), int.rem_euclid(unit));
        let is_up = rest > unit - rest || rest == unit - rest && floor % 2 != 0;
        let rounded = (floor + i128::from(is_up)).checked_mul(unit);
        return rounded.map(Value::Int).ok_or_else(|| Error::new("the integer has more than 127 bits"));
    }
    if !float.is_finite() {
        return Ok(Value::Float(float));
    }
    let rounded = match usize::try_from(precision) {
        Ok(precision) => format!("{float:.*}", precision.min(400)).parse().unwrap_or(float),
        Err(_) if unit == 0.0 => 0.0_f64.copysign(float),
        Err(_) => (float * unit).round_ties_even() / unit,
    };
    Ok(Value::Float(rounded))
}

fn file_size(size: f64, is_binary: bool) -> String {
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    if size == 1.0 {
        return "1 Byte".into();
    }
    if size < base {
        return format!("{} Bytes", size as i128);
    }
    let (mut unit, mut prefixes) = (base, "kMGTPEZY".chars().peekable());
    while let Some(prefix) = prefixes.next() {
        unit *= base;
        if size < unit || prefixes.peek().is_none() {
            let prefix = if is_binary { format!("{}i", prefix.to_ascii_uppercase()) } else { prefix.to_string() };
            return format!("{:.1} {prefix}B", base * size / unit);
        }
    }
    String::new()
}
