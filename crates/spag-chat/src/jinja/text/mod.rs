//! Texts: characters as Python classes them, HTML, formats and methods.

mod braces;
mod change;
mod characters;
mod methods;
mod pad;
mod percent;
mod spec;
mod split;

pub(crate) use braces::{braces, braces_of};
pub(crate) use change::{joined, replaced, stripped};
pub(crate) use characters::{capitalized, is_space};
pub(crate) use methods::{METHODS, method};
pub(crate) use pad::{Align, pad};
pub(crate) use percent::percent;
pub(crate) use split::lines;

use super::budget::Budget;
use super::error::Result;
use super::value::{self, Text, Value};

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
