//! Texts made of texts, whose length is counted first.

use super::is_space;
use crate::jinja::budget::Budget;
use crate::jinja::error::Result;
use crate::jinja::value::Value;

/// The text without characters at its ends.
pub(crate) fn stripped<'t>(budget: &Budget, text: &'t str, name: &str, chars: Option<&Value>) -> Result<&'t str> {
    let chars = chars.map(Value::str).transpose()?;
    budget.work(chars.map_or(0, str::len).saturating_mul(text.len()))?;
    let is_stripped = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if name == "rstrip" { text } else { text.trim_start_matches(is_stripped) };
    Ok(if name == "lstrip" { text } else { text.trim_end_matches(is_stripped) })
}

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
    let mut out = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(part.as_ref());
    }
    Ok(out)
}
