//! Attribute paths of filters: `a.b.0`.

use crate::jinja::access::subscript;
use crate::jinja::error::Result;
use crate::jinja::run::Run;
use crate::jinja::value::Value;

/// The attribute of a value; the value itself without a path.
pub(super) fn by_path(run: &Run, value: &Value, path: Option<&Value>, default: Option<&Value>) -> Result<Value> {
    let mut found = value.clone();
    let Some(path) = path else { return Ok(found) };
    let step = |found: &Value, key: &Value| -> Result<Value> {
        let next = subscript(run, found, key)?;
        Ok(if next.is_undefined() { default.cloned().unwrap_or(next) } else { next })
    };
    let Some(text) = path.as_text() else { return step(&found, path) };
    for part in text.split('.') {
        run.budget.work(part.len() + 1)?;
        let key = part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()));
        found = step(&found, &key.map_or_else(|| Value::plain(part), Value::Int))?;
    }
    Ok(found)
}

/// A value for comparison, lower-cased unless `is_case_sensitive`.
pub(super) fn folded(run: &Run, value: Value, is_case_sensitive: bool) -> Result<Value> {
    match value.as_text() {
        Some(text) if !is_case_sensitive => Value::text(&run.budget, text.to_lowercase()),
        _ => Ok(value),
    }
}
