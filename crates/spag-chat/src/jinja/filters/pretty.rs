//! `pprint`: a value over several lines if it does not fit one.

use crate::jinja::error::Result;
use crate::jinja::run::Run;
use crate::jinja::value::{Value, repr};

/// Columns of a line.
const WIDTH: usize = 80;

/// `pprint.pformat(value)`.
pub(super) fn pprint(run: &Run, value: &Value) -> Result<Value> {
    let mut out = String::new();
    write(run, value, 0, 0, &mut out)?;
    Value::text(&run.budget, out)
}

/// Writes a value that begins in a column, before `after` characters.
fn write(run: &Run, value: &Value, column: usize, after: usize, out: &mut String) -> Result<()> {
    let _level = run.budget.enter()?;
    let value = sorted(run, value)?;
    let line = repr(&run.budget, &value)?;
    let (begin, end) = match &value {
        Value::List(_) => ("[", "]"),
        Value::Tuple(_) => ("(", ")"),
        Value::Dict(_) => ("{", "}"),
        _ => return push(run, out, &line),
    };
    if line.chars().count() <= WIDTH.saturating_sub(column + after) {
        return push(run, out, &line);
    }
    push(run, out, begin)?;
    let mut write_all = |all: Vec<(Option<&Value>, &Value)>| -> Result<()> {
        let last = all.len().saturating_sub(1);
        for (index, (key, item)) in all.into_iter().enumerate() {
            if index > 0 {
                push(run, out, &format!(",\n{}", " ".repeat(column + 1)))?;
            }
            let mut column = column + 1;
            if let Some(key) = key {
                let key = repr(&run.budget, key)? + ": ";
                column += key.chars().count();
                push(run, out, &key)?;
            }
            write(run, item, column, if index == last { after + 1 } else { 1 }, out)?;
        }
        Ok(())
    };
    match &value {
        Value::Dict(dict) => write_all(dict.iter().map(|(key, value)| (Some(key.value()), value)).collect())?,
        Value::List(seq) | Value::Tuple(seq) => write_all(seq.items.iter().map(|item| (None, item)).collect())?,
        _ => {}
    }
    push(run, out, end)
}

fn push(run: &Run, out: &mut String, text: &str) -> Result<()> {
    run.budget.text(text.len())?;
    out.push_str(text);
    Ok(())
}

/// A dict in the order of its keys, if they have one.
fn sorted(run: &Run, value: &Value) -> Result<Value> {
    let Value::Dict(dict) = value else { return Ok(value.clone()) };
    let mut entries: Vec<(Value, Value)> =
        dict.iter().map(|(key, value)| (key.value().clone(), value.clone())).collect();
    if entries.iter().all(|(key, _)| key.as_text().is_some()) {
        entries.sort_by(|(a, _), (b, _)| a.as_text().cmp(&b.as_text()));
    } else if entries.iter().all(|(key, _)| key.as_float().is_some()) {
        let number = |key: &Value| key.as_float().unwrap_or(f64::NAN);
        entries.sort_by(|(a, _), (b, _)| number(a).total_cmp(&number(b)));
    }
    Value::dict(&run.budget, entries)
}
