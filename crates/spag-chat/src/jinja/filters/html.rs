//! Filters for HTML and URLs.

use crate::jinja::call::Call;
use crate::jinja::error::{Result, fail};
use crate::jinja::text::{escape_text, escape_value, is_space, joined};
use crate::jinja::value::{self, Value, items};

pub(super) fn escape(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Ok(Value::Text(escape_value(call.budget, value)?))
}

pub(super) fn forceescape(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Ok(Value::Text(escape_text(call.budget, &call.own(value)?.text)?))
}

pub(super) fn safe(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Value::made(call.budget, call.own(value)?.text, true)
}

pub(super) fn striptags(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let text = without_tags(&call.own(value)?.text);
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    Value::text(call.budget, unescaped(&words.join(" ")))
}

/// The text without comments and tags.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (begin, end) in [("<!--", "-->"), ("<", ">")] {
        let source = if begin == "<" { std::mem::take(&mut out) } else { text.to_owned() };
        let mut rest = &source[..];
        while let Some((before, tag)) = rest.split_once(begin) {
            let Some((_, after)) = tag.split_once(end) else { break };
            out.push_str(before);
            rest = after;
        }
        out.push_str(rest);
    }
    out
}

/// The text with HTML entities decoded.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        out.push_str(before);
        // The longest entity is shorter.
        let end = entity.bytes().take(16).position(|byte| byte == b';');
        let found = end.map(|end| (&entity[..end], &entity[end + 1..])).and_then(|(name, after)| {
            let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => digits.parse().ok(),
            });
            let c = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                "nbsp" => '\u{a0}',
                _ => char::from_u32(number?)?,
            };
            Some((c, after))
        });
        match found {
            Some((c, after)) => {
                out.push(c);
                rest = after;
            }
            None => {
                out.push('&');
                rest = entity;
            }
        }
    }
    out + rest
}

pub(super) fn urlencode(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let budget = call.budget;
    let quoted = |value: &Value, in_query: bool| -> Result<String> {
        let text = value::text(budget, value)?;
        budget.text(text.len().saturating_mul(3))?;
        let mut out = String::with_capacity(text.len());
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(byte.into()),
                b'/' if !in_query => out.push('/'),
                b' ' if in_query => out.push('+'),
                byte => out.push_str(&format!("%{byte:02X}")),
            }
        }
        Ok(out)
    };
    let pairs = match value {
        Value::Dict(dict) => items(budget, &Value::View(value::View::Items, dict.clone()))?,
        Value::List(_) | Value::Tuple(_) | Value::View(..) | Value::Iter(_) => items(budget, value)?,
        other => return Value::text(budget, quoted(other, false)?),
    };
    let mut parts = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let [key, value] = &items(budget, &pair)?[..] else { return fail!("urlencode takes pairs") };
        parts.push(format!("{}={}", quoted(key, true)?, quoted(value, true)?));
    }
    Value::text(budget, joined(budget, &parts, "&")?)
}
