//! Values as texts: Python's `str` and `repr`.

use super::{Text, Value, items};
use crate::jinja::budget::{Budget, NODE, Out};
use crate::jinja::error::{Error, Result};

/// `str(value)`.
pub(crate) fn text(budget: &Budget, value: &Value) -> Result<String> {
    if let Value::Text(text) = value {
        budget.text(text.text.len())?;
        return Ok(text.text.to_string());
    }
    if let Value::Undefined(undefined) = value {
        return if undefined.strict { Err(Error::new(undefined.why.clone())) } else { Ok(String::new()) };
    }
    repr(budget, value)
}

/// `repr(value)`.
pub(crate) fn repr(budget: &Budget, value: &Value) -> Result<String> {
    let mut out = Out::new(budget);
    write(value, &mut out)?;
    Ok(out.text)
}

fn write(value: &Value, out: &mut Out<'_>) -> Result<()> {
    let budget = out.budget;
    budget.work(NODE)?;
    let _level = budget.enter()?;
    match value {
        Value::Undefined(_) => out.push("Undefined"),
        Value::None => out.push("None"),
        Value::Bool(value) => out.push(if *value { "True" } else { "False" }),
        Value::Int(value) => out.push(&value.to_string()),
        Value::Float(value) => out.push(&float_text(*value)),
        Value::Text(Text { text, markup }) => {
            budget.text(text.len())?;
            let quoted = quoted(text);
            if *markup { out.push(&format!("Markup({quoted})")) } else { out.push(&quoted) }
        }
        Value::List(seq) => all("[", &seq.items, "]", out),
        Value::Tuple(seq) => all("(", &seq.items, if seq.items.len() == 1 { ",)" } else { ")" }, out),
        Value::Dict(dict) => {
            out.push("{")?;
            for (index, (key, value)) in dict.iter().enumerate() {
                out.push(if index > 0 { ", " } else { "" })?;
                write(key.value(), out)?;
                out.push(": ")?;
                write(value, out)?;
            }
            out.push("}")
        }
        Value::View(..) => {
            out.push(&format!("{}(", value.type_name()))?;
            all("[", &items(budget, value)?, "])", out)
        }
        Value::Range(range) => {
            let step = if range.step == 1 { String::new() } else { format!(", {}", range.step) };
            out.push(&format!("range({}, {}{step})", range.begin, range.end))
        }
        Value::Namespace(namespace) => {
            out.push("<Namespace {")?;
            for (index, (name, value)) in namespace.values.borrow().iter().enumerate() {
                out.push(if index > 0 { ", " } else { "" })?;
                out.push(&quoted(name))?;
                out.push(": ")?;
                write(value, out)?;
            }
            out.push("}>")
        }
        Value::Macro(made) => out.push(&format!("<Macro {}>", quoted(&made.definition.name))),
        Value::Loop(state) => out.push(&format!("<LoopContext {}/{}>", state.at.get() + 1, state.items.items.len())),
        other => out.push(&format!("<{} object>", other.type_name())),
    }
}

fn all(begin: &str, items: &[Value], end: &str, out: &mut Out<'_>) -> Result<()> {
    out.push(begin)?;
    for (index, item) in items.iter().enumerate() {
        out.push(if index > 0 { ", " } else { "" })?;
        write(item, out)?;
    }
    out.push(end)
}

/// A float in Python's format: the fewest digits that round-trip.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = format!("{value}");
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// A text quoted as by `repr`.
pub(crate) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match u32::from(c) {
                code @ ..=0xff => format!("\\x{code:02x}"),
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
    out
}

/// Whether Python's `repr` leaves a character unescaped.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // Rust escapes the same characters, except for combining marks at the start of a text.
    let mut buffer = [0; 5];
    buffer[0] = b'a';
    let len = c.encode_utf8(&mut buffer[1..]).len();
    let pair = std::str::from_utf8(&buffer[..=len]).unwrap_or_default();
    pair.escape_debug().count() == 2
}
