//! Texts: Python's character classes, HTML escaping, formats and methods.

mod braces;
mod characters;
pub(crate) mod methods;
mod pad;
mod percent;
mod spec;
mod split;

pub(crate) use characters::{capitalized, is_space};
pub(crate) use percent::percent;
pub(crate) use split::lines;

use super::budget::Budget;
use super::error::Result;
use super::value::{self, Text, Value};

/// Replaces a part of the text `count` times, or everywhere if `count` is negative.
pub(crate) fn replaced(budget: &Budget, text: &str, old: &str, new: &str, count: i128) -> Result<String> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    budget.work(text.len())?;
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() }.min(most);
    let len = (text.len() - found * old.len()).saturating_add(found.saturating_mul(new.len()));
    budget.text(len)?;
    Ok(text.replacen(old, new, found))
}

/// Joins texts with a separator.
pub(crate) fn joined<T: AsRef<str>>(budget: &Budget, parts: &[T], separator: &str) -> Result<String> {
    let own: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    budget.text(own.saturating_add(separator.len().saturating_mul(parts.len().saturating_sub(1))))?;
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    Ok(parts.join(separator))
}

/// The indentation of lines: a text, or a number of blanks.
pub(crate) fn blanks(budget: &Budget, indent: &Value) -> Result<String> {
    if let Value::Text(text) = indent {
        return Ok(text.text.to_string());
    }
    let width = usize::try_from(indent.int()?.max(0)).unwrap_or(usize::MAX);
    budget.text(width)?;
    Ok(" ".repeat(width))
}

/// Escapes a value's text for HTML, unless it is HTML already.
pub(crate) fn escape_value(budget: &Budget, value: &Value) -> Result<Text> {
    if let Value::Text(text @ Text { markup: true, .. }) = value {
        return Ok(text.clone());
    }
    escape_text(budget, &value::text(budget, value)?)
}

/// As [`escape_value`], for any text.
pub(crate) fn escape_text(budget: &Budget, text: &str) -> Result<Text> {
    budget.text(text.len())?;
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            c => escaped.push(c),
        }
    }
    budget.text(escaped.len())?;
    Ok(Text { text: escaped.into(), markup: true })
}
