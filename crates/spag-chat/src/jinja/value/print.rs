//! Values as texts: `str` and `repr` of Python.

use super::{Text, Value, items};
use crate::jinja::budget::{Budget, NODE};
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
    let mut out = String::new();
    write(budget, value, &mut out)?;
    Ok(out)
}

fn push(budget: &Budget, out: &mut String, text: &str) -> Result<()> {
    if out.len() + text.len() > out.capacity() {
        // What a growing text takes at once.
        budget.text(out.len() + text.len())?;
    }
    out.push_str(text);
    Ok(())
}

fn write(budget: &Budget, value: &Value, out: &mut String) -> Result<()> {
    budget.work(NODE)?;
    let _level = budget.enter()?;
    match value {
        Value::Undefined(_) => push(budget, out, "Undefined"),
        Value::None => push(budget, out, "None"),
        Value::Bool(value) => push(budget, out, if *value { "True" } else { "False" }),
        Value::Int(value) => push(budget, out, &value.to_string()),
        Value::Float(value) => push(budget, out, &float_text(*value)),
        Value::Text(Text { text, markup }) => {
            budget.text(text.len())?;
            let quoted = quoted(text);
            if *markup { push(budget, out, &format!("Markup({quoted})")) } else { push(budget, out, &quoted) }
        }
        Value::List(seq) => all(budget, "[", &seq.items, "]", out),
        Value::Tuple(seq) => all(budget, "(", &seq.items, if seq.items.len() == 1 { ",)" } else { ")" }, out),
        Value::Dict(dict) => {
            push(budget, out, "{")?;
            for (index, (key, value)) in dict.iter().enumerate() {
                push(budget, out, if index > 0 { ", " } else { "" })?;
                write(budget, key.value(), out)?;
                push(budget, out, ": ")?;
                write(budget, value, out)?;
            }
            push(budget, out, "}")
        }
        Value::View(..) => {
            push(budget, out, &format!("{}(", value.type_name()))?;
            all(budget, "[", &items(budget, value)?, "])", out)
        }
        Value::Range(range) => {
            let step = if range.step == 1 { String::new() } else { format!(", {}", range.step) };
            push(budget, out, &format!("range({}, {}{step})", range.begin, range.end))
        }
        Value::Namespace(namespace) => {
            push(budget, out, "<Namespace {")?;
            for (index, (name, value)) in namespace.values.borrow().iter().enumerate() {
                push(budget, out, if index > 0 { ", " } else { "" })?;
                push(budget, out, &quoted(name))?;
                push(budget, out, ": ")?;
                write(budget, value, out)?;
            }
            push(budget, out, "}>")
        }
        Value::Macro(made) => push(budget, out, &format!("<Macro {}>", quoted(&made.definition.name))),
        Value::Loop(state) => {
            push(budget, out, &format!("<LoopContext {}/{}>", state.at.get() + 1, state.items.items.len()))
        }
        other => push(budget, out, &format!("<{} object>", other.type_name())),
    }
}

fn all(budget: &Budget, begin: &str, items: &[Value], end: &str, out: &mut String) -> Result<()> {
    push(budget, out, begin)?;
    for (index, item) in items.iter().enumerate() {
        push(budget, out, if index > 0 { ", " } else { "" })?;
        write(budget, item, out)?;
    }
    push(budget, out, end)
}

/// A float as Python writes it: the fewest digits that are this float.
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

/// A text in quotes, as `repr` writes it.
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

/// Whether Python's `repr` leaves a character as it is.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // Rust escapes the same characters in a text, but for marks at its begin.
    let mut buffer = [0; 5];
    buffer[0] = b'a';
    let len = c.encode_utf8(&mut buffer[1..]).len();
    let pair = std::str::from_utf8(&buffer[..=len]).unwrap_or_default();
    pair.escape_debug().count() == 2
}
