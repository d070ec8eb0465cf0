//! Filters of HTML and addresses.

use super::attributes::is_set;
use crate::jinja::arguments::Args;
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::text::{escape_text, escape_value, is_space, joined};
use crate::jinja::value::{self, Value, items};

pub(super) fn filter(run: &Run, name: &str, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    match name {
        "e" | "escape" => args.none(name).and_then(|()| Ok(Value::Text(escape_value(budget, value)?))),
        "forceescape" => {
            args.none(name)?;
            Ok(Value::Text(escape_text(budget, &value::text(budget, value)?)?))
        }
        "safe" => {
            args.none(name)?;
            Value::made(budget, value::text(budget, value)?, true)
        }
        "striptags" => {
            args.none(name)?;
            let text = without_tags(&value::text(budget, value)?);
            let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
            Value::text(budget, unescaped(&words.join(" ")))
        }
        "urlencode" => {
            args.none(name)?;
            urlencode(run, value)
        }
        "xmlattr" => xml_attributes(run, value, args),
        _ => super::wrap::urlize(run, value, args),
    }
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

/// The text with characters in place of HTML's names and numbers of them.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        out.push_str(before);
        // The longest name or number has fewer characters.
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

fn urlencode(run: &Run, value: &Value) -> Result<Value> {
    let budget = &run.budget;
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

fn xml_attributes(run: &Run, value: &Value, args: Args) -> Result<Value> {
    let [space] = args.bind("xmlattr", ["autospace"], 0)?;
    let Value::Dict(dict) = value else { return fail!("xmlattr takes a dict") };
    let budget = &run.budget;
    let mut parts = Vec::new();
    for (key, value) in dict.iter() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let name = value::text(budget, key.value())?;
        if name.contains(|c| is_space(c) || "/>=".contains(c)) {
            return fail!("Invalid character in attribute name: {}", value::quoted(&name));
        }
        let (name, value) = (escape_text(budget, &name)?, escape_value(budget, value)?);
        budget.text(name.text.len() + value.text.len())?;
        parts.push(format!("{}=\"{}\"", name.text, value.text));
    }
    let has_space = space.is_none() || is_set(space.as_ref())?;
    let text = joined(budget, &parts, " ")?;
    Value::text(budget, if has_space && !text.is_empty() { format!(" {text}") } else { text })
}
