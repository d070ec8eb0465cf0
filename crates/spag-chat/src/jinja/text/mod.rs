//! Texts: characters as Python classes them, HTML, formats and methods.

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

/// The text with another one in place of a part, `count` times, or always if it is negative.
pub(crate) fn replaced(budget: &Budget, text: &str, old: &str, new: &str, count: i128) -> Result<String> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    budget.work(text.len())?;
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() }.min(most);
    let len = (text.len() - found * old.len()).saturating_add(found.saturating_mul(new.len()));
    budget.text(len)?;
    Ok(text.replacen(old, new, found))
}

/// The texts with another one between.
pub(crate) fn joined<T: AsRef<str>>(budget: &Budget, parts: &[T], separator: &str) -> Result<String> {
    let own: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    budget.text(own.saturating_add(separator.len().saturating_mul(parts.len().saturating_sub(1))))?;
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    Ok(parts.join(separator))
}

/// What lines are indented by: a text, or so many blanks.
pub(crate) fn blanks(budget: &Budget, indent: &Value) -> Result<String> {
    if let Value::Text(text) = indent {
        return Ok(text.text.to_string());
    }
    let width = usize::try_from(indent.int()?.max(0)).unwrap_or(usize::MAX);
    budget.text(width)?;
    Ok(" ".repeat(width))
}

/// A text without the characters that HTML gives a meaning to; one that is HTML already stays.
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
