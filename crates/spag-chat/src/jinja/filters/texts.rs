//! Filters of texts.

use super::attributes::is_set;
use crate::jinja::arguments::{Args, given};
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::text::{Align, capitalized, is_space, lines, pad, percent, replaced, stripped};
use crate::jinja::value::{self, Text, Value};

pub(super) fn filter(run: &Run, name: &str, value: &Value, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let text = value::text(budget, value)?;
    let markup = matches!(value, Value::Text(Text { markup: true, .. }));
    let made = |made: String| Value::made(budget, made, markup);
    match name {
        "string" => args.none(name).and_then(|()| made(text)),
        "lower" => args.none(name).and_then(|()| made(text.to_lowercase())),
        "upper" => args.none(name).and_then(|()| made(text.to_uppercase())),
        "capitalize" => args.none(name).and_then(|()| made(capitalized(&text))),
        "title" => args.none(name).and_then(|()| Value::text(budget, title(&text))),
        "wordcount" => {
            args.none(name)?;
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            Ok(Value::Int(text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count() as i128))
        }
        "center" => {
            let [width] = args.bind(name, ["width"], 0)?;
            made(pad(budget, text, width.map_or(Ok(80), |width| width.int())?, ' ', Align::CenterOfText)?)
        }
        "trim" => {
            let [chars] = args.bind(name, ["chars"], 0)?;
            made(stripped(budget, &text, "strip", given(chars).as_ref())?.to_owned())
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"], 2)?;
            let (old, new) = (old.unwrap_or(Value::None), new.unwrap_or(Value::None));
            let (old, new) = (value::text(budget, &old)?, value::text(budget, &new)?);
            let count = given(count).map_or(Ok(-1), |count| count.int())?;
            made(replaced(budget, &text, &old, &new, count)?)
        }
        "format" => {
            if !args.positional.is_empty() && !args.named.is_empty() {
                return fail!("can't handle positional and keyword arguments at the same time");
            }
            let values = if args.named.is_empty() {
                Value::tuple(budget, args.positional)?
            } else {
                Value::dict(budget, args.named.into_iter().map(|(name, value)| (Value::plain(name), value)))?
            };
            percent(budget, &Text { text: text.into(), markup }, &values)
        }
        "indent" => indent(run, &text, args).and_then(made),
        _ => truncate(run, text, args).and_then(made),
    }
}

/// Words begin after blanks, hyphens and opening brackets.
fn title(text: &str) -> String {
    let is_between = |c: char| is_space(c) || "-({[<".contains(c);
    text.split_inclusive(is_between).map(capitalized).collect()
}

fn indent(run: &Run, text: &str, args: Args) -> Result<String> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"], 0)?;
    let indent = match width {
        Some(Value::Text(text)) => text.text.to_string(),
        width => {
            let width = usize::try_from(width.map_or(Ok(4), |width| width.int())?.max(0)).unwrap_or(usize::MAX);
            run.budget.text(width)?;
            " ".repeat(width)
        }
    };
    let (first, blank) = (is_set(first.as_ref())?, is_set(blank.as_ref())?);
    // The line break makes an empty line of one at the end.
    let text = format!("{text}\n");
    let lines = lines(&text, false);
    run.budget.text(text.len().saturating_add(indent.len().saturating_mul(lines.len())))?;
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
    Ok(out)
}

fn truncate(run: &Run, text: String, args: Args) -> Result<String> {
    let [length, kill, end, leeway] = args.bind("truncate", ["length", "killwords", "end", "leeway"], 0)?;
    let length = length.map_or(Ok(255), |length| length.int())?;
    let leeway = given(leeway).map_or(Ok(5), |leeway| leeway.int())?;
    let end = end.map_or(Ok("...".to_owned()), |end| value::text(&run.budget, &end))?;
    let end_length = end.chars().count() as i128;
    if length < end_length || leeway < 0 {
        return fail!(
            "truncate expects a length of at least {end_length} and no negative leeway, got {length} and {leeway}"
        );
    }
    if text.chars().count() as i128 <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept = usize::try_from(length - end_length).unwrap_or(usize::MAX);
    let kept: String = text.chars().take(kept).collect();
    let kept = match kept.rsplit_once(' ') {
        Some((words, _)) if !is_set(kill.as_ref())? => words,
        _ => &kept,
    };
    Ok([kept, &end].concat())
}
