//! Filters of texts that are not text methods.

use crate::jinja::call::Call;
use crate::jinja::error::{Result, fail};
use crate::jinja::text::{blanks, capitalized, is_space, lines, percent, replaced};
use crate::jinja::value::{self, Value};

pub(super) fn string(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    call.own(value).map(Value::Text)
}

/// Capitalizes words, which begin after blanks, hyphens and opening brackets.
pub(super) fn title(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let is_between = |c: char| is_space(c) || "-({[<".contains(c);
    let title: String = call.own(value)?.text.split_inclusive(is_between).map(capitalized).collect();
    Value::text(call.budget, title)
}

pub(super) fn wordcount(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let is_between = |c: char| !c.is_alphanumeric() && c != '_';
    Ok(Value::Int(call.own(value)?.text.split(is_between).filter(|word| !word.is_empty()).count() as i128))
}

pub(super) fn replace(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let (old, new) = (value::text(call.budget, call.arg(0))?, value::text(call.budget, call.arg(1))?);
    let count = call.given(2).map_or(Ok(-1), Value::int)?;
    call.made(replaced(call.budget, &own.text, &old, &new, count)?, &own)
}

pub(super) fn format(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let args = std::mem::take(&mut call.rest);
    if !args.positional.is_empty() && !args.named.is_empty() {
        return fail!("can't handle positional and keyword arguments at the same time");
    }
    let values = if args.named.is_empty() {
        Value::tuple(call.budget, args.positional)?
    } else {
        Value::dict(call.budget, args.named.into_iter().map(|(name, value)| (Value::plain(name), value)))?
    };
    percent(call.budget, &own, &values)
}

pub(super) fn indent(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let indent = blanks(call.budget, call.passed(0).unwrap_or(&Value::Int(4)))?;
    let (first, blank) = (call.is_set(1)?, call.is_set(2)?);
    // The line break adds an empty last line.
    let text = format!("{}\n", own.text);
    let lines = lines(&text, false);
    call.budget.text(text.len().saturating_add(indent.len().saturating_mul(lines.len())))?;
    let mut out = String::new();
    for (index, line) in lines.into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
        if is_indented {
            out.push_str(&indent);
        }
        out.push_str(line);
    }
    call.made(out, &own)
}

pub(super) fn truncate(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let (length, leeway) = (call.int(0, 255)?, call.given(3).map_or(Ok(5), Value::int)?);
    let end = call.passed(2).map_or(Ok("...".to_owned()), |end| value::text(call.budget, end))?;
    let end_length = end.chars().count() as i128;
    if length < end_length || leeway < 0 {
        return fail!(
            "truncate expects a length of at least {end_length} and no negative leeway, got {length} and {leeway}"
        );
    }
    if own.text.chars().count() as i128 <= length.saturating_add(leeway) {
        return Ok(Value::Text(own));
    }
    let kept = usize::try_from(length - end_length).unwrap_or(usize::MAX);
    let kept: String = own.text.chars().take(kept).collect();
    let kept = match kept.rsplit_once(' ') {
        Some((words, _)) if !call.is_set(1)? => words,
        _ => &kept,
    };
    call.made([kept, &end].concat(), &own)
}
