//! Methods of texts.

use super::pad::{Align, pad};
use super::{braces, characters, escape_value, joined, replaced, split};
use crate::jinja::budget::Out;
use crate::jinja::call::{Call, Entry};
use crate::jinja::error::{Result, fail};
use crate::jinja::value::{self, Text, Value};

/// All methods.
pub(crate) const METHODS: &[Entry<Value>] = &[
    Entry("capitalize", "", cased),
    Entry("casefold", "", cased),
    Entry("center", "width fillchar?", padded),
    Entry("count", "sub start? end?", find),
    Entry("encode", "*", unsupported),
    Entry("endswith", "prefix start? end?", affix),
    Entry("expandtabs", "tabsize?", expandtabs),
    Entry("find", "sub start? end?", find),
    Entry("format", "*", braces::format),
    Entry("format_map", "mapping", braces::format_map),
    Entry("index", "sub start? end?", find),
    Entry("isalnum", "", is),
    Entry("isalpha", "", is),
    Entry("isascii", "", is),
    Entry("isdecimal", "", is),
    Entry("isdigit", "", is),
    Entry("isidentifier", "", is),
    Entry("islower", "", is),
    Entry("isnumeric", "", is),
    Entry("isprintable", "", is),
    Entry("isspace", "", is),
    Entry("istitle", "", is),
    Entry("isupper", "", is),
    Entry("join", "iterable", join),
    Entry("ljust", "width fillchar?", padded),
    Entry("lower", "", cased),
    Entry("lstrip", "chars?", strip),
    Entry("partition", "sep", partition),
    Entry("removeprefix", "prefix", remove),
    Entry("removesuffix", "suffix", remove),
    Entry("replace", "old new count?", replace),
    Entry("rfind", "sub start? end?", find),
    Entry("rindex", "sub start? end?", find),
    Entry("rjust", "width fillchar?", padded),
    Entry("rpartition", "sep", partition),
    Entry("rsplit", "sep? maxsplit?", split),
    Entry("rstrip", "chars?", strip),
    Entry("split", "sep? maxsplit?", split),
    Entry("splitlines", "keepends?", splitlines),
    Entry("startswith", "prefix start? end?", affix),
    Entry("strip", "chars?", strip),
    Entry("swapcase", "", cased),
    Entry("title", "", cased),
    Entry("translate", "table", translate),
    Entry("upper", "", cased),
    Entry("zfill", "width", zfill),
];

fn unsupported(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    fail!("the method `{}` of texts is not supported", call.name)
}

fn is(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    Ok(Value::Bool(characters::is(&call.own(value)?.text, call.name)))
}

/// Case conversions, which at most triple the bytes.
pub(crate) fn cased(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let cased = match call.name {
        "capitalize" => characters::capitalized(&own.text),
        "casefold" => characters::folded(&own.text),
        "lower" => own.text.to_lowercase(),
        "swapcase" => characters::swapped(&own.text),
        "title" => characters::titled(&own.text),
        _ => own.text.to_uppercase(),
    };
    call.made(cased, &own)
}

/// `center`, `ljust` and `rjust`.
pub(crate) fn padded(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let align = match call.name {
        "center" => Align::CenterOfText,
        "ljust" => Align::Left,
        _ => Align::Right,
    };
    let mut fill = call.passed(1).map_or(Ok(" "), Value::str)?.chars();
    let (Some(fill), None) = (fill.next(), fill.next()) else {
        return fail!("The fill character must be exactly one character long");
    };
    call.made(pad(call.budget, own.text.to_string(), call.int(0, 80)?, fill, align)?, &own)
}

fn zfill(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let align = if own.text.starts_with(['-', '+']) { Align::AfterSign } else { Align::Right };
    call.made(pad(call.budget, own.text.to_string(), call.arg(0).int()?, '0', align)?, &own)
}

fn expandtabs(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let size = usize::try_from(call.int(0, 8)?.max(0)).unwrap_or(usize::MAX);
    let (mut out, mut column) = (Out::new(call.budget), 0);
    for c in own.text.chars() {
        let (c, count) = match c {
            '\t' if size == 0 => continue,
            '\t' => (' ', size - column % size),
            c => (c, 1),
        };
        out.fill(c, count)?;
        column = if c == '\n' || c == '\r' { 0 } else { column + count };
    }
    call.made(out.text, &own)
}

/// Strips characters from one or both ends of the text.
pub(crate) fn strip(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let chars = call.given(0).map(Value::str).transpose()?;
    call.budget.work(chars.map_or(0, str::len).saturating_mul(own.text.len()))?;
    let is_stripped = |c: char| chars.map_or_else(|| characters::is_space(c), |chars| chars.contains(c));
    let text = if call.name == "rstrip" { &own.text } else { own.text.trim_start_matches(is_stripped) };
    call.made(if call.name == "lstrip" { text } else { text.trim_end_matches(is_stripped) }, &own)
}

/// `removeprefix` and `removesuffix`.
fn remove(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (own, affix) = (call.own(value)?, call.arg(0).str()?);
    let is_prefix = call.name == "removeprefix";
    let rest = if is_prefix { own.text.strip_prefix(affix) } else { own.text.strip_suffix(affix) };
    call.made(rest.unwrap_or(&own.text), &own)
}

fn replace(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (own, new) = (call.own(value)?, call.arg(1));
    let new = if own.markup { escape_value(call.budget, new)?.text } else { new.str()?.into() };
    call.made(replaced(call.budget, &own.text, call.arg(0).str()?, &new, call.int(2, -1)?)?, &own)
}

fn join(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let items = value::items(call.budget, call.arg(0))?;
    let mut parts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match item {
            item if own.markup => parts.push(escape_value(call.budget, item)?.text),
            Value::Text(text) => parts.push(text.text.clone()),
            other => return fail!("sequence item {index}: expected str instance, {} found", other.type_name()),
        }
    }
    call.made(joined(call.budget, &parts, &own.text)?, &own)
}

/// A non-empty text.
fn separator(value: &Value) -> Result<&str> {
    let separator = value.str()?;
    if separator.is_empty() { fail!("empty separator") } else { Ok(separator) }
}

/// `split` and `rsplit`.
fn split(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let most = usize::try_from(call.int(1, -1)?).unwrap_or(usize::MAX);
    let is_right = call.name == "rsplit";
    let count = most.saturating_add(1);
    let parts = match call.given(0).map(separator).transpose()? {
        None if is_right => split::words_from_right(&own.text, most),
        None => split::words(&own.text, most),
        Some(separator) if is_right => {
            let mut parts: Vec<&str> = own.text.rsplitn(count, separator).collect();
            parts.reverse();
            parts
        }
        Some(separator) => own.text.splitn(count, separator).collect(),
    };
    list(call, &own, &parts)
}

fn splitlines(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let lines = split::lines(&own.text, call.is_set(0).unwrap_or(false));
    list(call, &own, &lines)
}

fn list(call: &Call<'_>, own: &Text, parts: &[&str]) -> Result<Value> {
    call.budget.values(parts.len())?;
    Value::list(call.budget, parts.iter().map(|part| call.made(*part, own)).collect::<Result<_>>()?)
}

/// `partition` and `rpartition`.
fn partition(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (own, separator) = (call.own(value)?, separator(call.arg(0))?);
    let is_left = call.name == "partition";
    let found = if is_left { own.text.split_once(separator) } else { own.text.rsplit_once(separator) };
    let three = match found {
        Some((before, after)) => [before, separator, after],
        None if is_left => [&own.text, "", ""],
        None => ["", "", &own.text],
    };
    Value::tuple(call.budget, three.into_iter().map(|part| call.made(part, &own)).collect::<Result<_>>()?)
}

/// `startswith` and `endswith`.
fn affix(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let own = call.own(value)?;
    let Some((_, within)) = range(call, &own.text)? else { return Ok(Value::Bool(false)) };
    let affix = call.arg(0);
    let affixes = if let Value::Tuple(seq) = affix { &seq.items[..] } else { std::slice::from_ref(affix) };
    for affix in affixes {
        let affix = affix.str()?;
        if if call.name == "startswith" { within.starts_with(affix) } else { within.ends_with(affix) } {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// `find`, `index` and `count`, also from the right.
fn find(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (own, part) = (call.own(value)?, call.arg(0).str()?);
    let within = range(call, &own.text)?;
    if call.name == "count" {
        let count =
            |within: &str| if part.is_empty() { within.chars().count() + 1 } else { within.matches(part).count() };
        return Ok(Value::Int(within.map_or(0, |(_, within)| count(within)) as i128));
    }
    let found = within.and_then(|(begin, within)| {
        let at = if call.name.starts_with('r') { within.rfind(part) } else { within.find(part) };
        at.map(|at| begin + within[..at].chars().count())
    });
    match found {
        Some(at) => Ok(Value::Int(at as i128)),
        None if call.name.ends_with("find") => Ok(Value::Int(-1)),
        None => fail!("substring not found"),
    }
}

fn translate(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let (own, mut out) = (call.own(value)?, Out::new(call.budget));
    for c in own.text.chars() {
        match call.arg(0).entry(call.budget, &Value::Int(u32::from(c).into())) {
            None => out.fill(c, 1)?,
            Some(Value::None) => {}
            Some(Value::Text(new)) => out.push(&new.text)?,
            Some(other) => {
                let c = u32::try_from(other.int()?).ok().and_then(char::from_u32);
                out.fill(c.unwrap_or(' '), usize::from(c.is_some()))?;
            }
        }
    }
    call.made(out.text, &own)
}

/// The part of a text between the positions in the second and third arguments, and its start; `None` if there is no such part.
fn range<'t>(call: &Call<'_>, text: &'t str) -> Result<Option<(usize, &'t str)>> {
    if call.given(1).is_none() && call.given(2).is_none() {
        return Ok(Some((0, text)));
    }
    let len = text.chars().count();
    let place = |argument, default| call.given(argument).map_or(Ok(default), |at| at.place(len));
    let (begin, end) = (place(1, 0)?, place(2, len)?.min(len));
    if begin > end {
        return Ok(None);
    }
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    Ok(Some((begin, &text[byte(begin)..byte(end)])))
}
