//! Methods of texts.

use super::change::{joined, replaced, stripped};
use super::pad::{Align, pad};
use super::{braces, braces_of, characters, escape_value, split};
use crate::jinja::arguments::{Args, given};
use crate::jinja::budget::Budget;
use crate::jinja::error::{Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{self, Text, Value};

/// Their names.
pub(crate) const METHODS: [&str; 46] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

/// Calls a method of a text.
pub(crate) fn method(run: &Run, text: &Text, name: &str, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let own = &*text.text;
    budget.work(own.len())?;
    let made = |made: String| Value::made(budget, made, text.markup);
    let part = |part: &str| Value::made(budget, part, text.markup);
    if let Some(is) = characters::is(own, name) {
        return args.none(name).map(|()| Value::Bool(is));
    }
    match name {
        // The result has at most thrice the bytes.
        "capitalize" | "casefold" | "lower" | "swapcase" | "title" | "upper" => {
            args.none(name)?;
            made(match name {
                "capitalize" => characters::capitalized(own),
                "casefold" => characters::folded(own),
                "lower" => own.to_lowercase(),
                "swapcase" => characters::swapped(own),
                "title" => characters::titled(own),
                _ => own.to_uppercase(),
            })
        }
        "center" | "ljust" | "rjust" => {
            let [width, fill] = args.bind(name, ["width", "fillchar"], 1)?;
            let align = match name {
                "center" => Align::CenterOfText,
                "ljust" => Align::Left,
                _ => Align::Right,
            };
            let fill = match fill {
                None => ' ',
                Some(fill) => match fill.str()?.chars().collect::<Vec<_>>()[..] {
                    [c] => c,
                    _ => return fail!("The fill character must be exactly one character long"),
                },
            };
            made(pad(budget, own.to_owned(), width.unwrap_or(Value::None).int()?, fill, align)?)
        }
        "zfill" => {
            let [width] = args.bind(name, ["width"], 1)?;
            let align = if own.starts_with(['-', '+']) { Align::AfterSign } else { Align::Right };
            made(pad(budget, own.to_owned(), width.unwrap_or(Value::None).int()?, '0', align)?)
        }
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"], 0)?;
            let size = size.map_or(Ok(8), |size| size.int())?;
            let (len, expand) = split::expanded(own, usize::try_from(size.max(0)).unwrap_or(usize::MAX));
            budget.text(len)?;
            made(expand())
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(name, ["chars"], 0)?;
            part(stripped(budget, own, name, given(chars).as_ref())?)
        }
        "removeprefix" => {
            let [prefix] = args.bind(name, ["prefix"], 1)?;
            part(own.strip_prefix(prefix.unwrap_or(Value::None).str()?).unwrap_or(own))
        }
        "removesuffix" => {
            let [suffix] = args.bind(name, ["suffix"], 1)?;
            part(own.strip_suffix(suffix.unwrap_or(Value::None).str()?).unwrap_or(own))
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"], 2)?;
            let (old, new) = (old.unwrap_or(Value::None), new.unwrap_or(Value::None));
            let count = count.map_or(Ok(-1), |count| count.int())?;
            let new = if text.markup { escape_value(budget, &new)?.text } else { new.str()?.into() };
            made(replaced(budget, own, old.str()?, &new, count)?)
        }
        "join" => {
            let [items] = args.bind(name, ["iterable"], 1)?;
            let items = value::items(budget, &items.unwrap_or(Value::None))?;
            let mut parts = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                match item {
                    item if text.markup => parts.push(escape_value(budget, item)?.text),
                    Value::Text(text) => parts.push(text.text.clone()),
                    other => return fail!("sequence item {index}: expected str instance, {} found", other.type_name()),
                }
            }
            made(joined(budget, &parts, own)?)
        }
        "split" | "rsplit" => {
            let [separator, most] = args.bind(name, ["sep", "maxsplit"], 0)?;
            let most = most.map_or(Ok(-1), |most| most.int())?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            list(budget, text, &parts(budget, own, name, given(separator).as_ref(), most)?)
        }
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"], 0)?;
            let lines = split::lines(own, keep.is_some_and(|keep| keep.truth().unwrap_or(false)));
            list(budget, text, &lines)
        }
        "partition" | "rpartition" => {
            let [separator] = args.bind(name, ["sep"], 1)?;
            let separator = separator.unwrap_or(Value::None);
            let separator = separator.str()?;
            if separator.is_empty() {
                return fail!("empty separator");
            }
            let found = if name == "partition" { own.split_once(separator) } else { own.rsplit_once(separator) };
            let three = match found {
                Some((before, after)) => [before, separator, after],
                None if name == "partition" => [own, "", ""],
                None => ["", "", own],
            };
            Value::tuple(budget, three.into_iter().map(part).collect::<Result<_>>()?)
        }
        "startswith" | "endswith" => {
            let [affix, start, end] = args.bind(name, ["prefix", "start", "end"], 1)?;
            let Some((_, within)) = range(own, start, end)? else { return Ok(Value::Bool(false)) };
            let affix = affix.unwrap_or(Value::None);
            let affixes = if let Value::Tuple(seq) = &affix { &seq.items[..] } else { std::slice::from_ref(&affix) };
            for affix in affixes {
                let affix = affix.str()?;
                let has_it = if name == "startswith" { within.starts_with(affix) } else { within.ends_with(affix) };
                if has_it {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let [part, start, end] = args.bind(name, ["sub", "start", "end"], 1)?;
            let part = part.unwrap_or(Value::None);
            let part = part.str()?;
            let within = range(own, start, end)?;
            if name == "count" {
                let count = |within: &str| match part {
                    "" => within.chars().count() + 1,
                    part => within.matches(part).count(),
                };
                return Ok(Value::Int(within.map_or(0, |(_, within)| count(within)) as i128));
            }
            let found = within.and_then(|(begin, within)| {
                let at = if name.starts_with('r') { within.rfind(part) } else { within.find(part) };
                at.map(|at| begin + within[..at].chars().count())
            });
            match found {
                Some(at) => Ok(Value::Int(at as i128)),
                None if name.ends_with("find") => Ok(Value::Int(-1)),
                None => fail!("substring not found"),
            }
        }
        "translate" => {
            let [table] = args.bind(name, ["table"], 1)?;
            let table = table.unwrap_or(Value::None);
            let mut out = String::new();
            for c in own.chars() {
                match table.entry(budget, &Value::Int(u32::from(c).into())) {
                    None => out.push(c),
                    Some(Value::None) => {}
                    Some(Value::Text(new)) => {
                        budget.text(new.text.len())?;
                        out.push_str(&new.text);
                    }
                    Some(other) => out.extend(u32::try_from(other.int()?).ok().and_then(char::from_u32)),
                }
            }
            made(out)
        }
        "format" => braces(run, text, args),
        "format_map" => {
            let [mapping] = args.bind(name, ["mapping"], 1)?;
            braces_of(run, text, &mapping.unwrap_or(Value::None))
        }
        _ => fail!("the method `{name}` of texts is not supported"),
    }
}

fn list(budget: &Budget, text: &Text, parts: &[&str]) -> Result<Value> {
    budget.values(parts.len())?;
    Value::list(budget, parts.iter().map(|part| Value::made(budget, *part, text.markup)).collect::<Result<_>>()?)
}

fn parts<'t>(
    budget: &Budget,
    text: &'t str,
    name: &str,
    separator: Option<&Value>,
    most: usize,
) -> Result<Vec<&'t str>> {
    budget.values(1)?;
    let Some(separator) = separator else {
        return Ok(if name == "split" { split::words(text, most) } else { split::words_from_right(text, most) });
    };
    let separator = separator.str()?;
    if separator.is_empty() {
        return fail!("empty separator");
    }
    let count = most.saturating_add(1);
    if name == "split" {
        return Ok(text.splitn(count, separator).collect());
    }
    let mut parts: Vec<&str> = text.rsplitn(count, separator).collect();
    parts.reverse();
    Ok(parts)
}

/// The part of a text between two places, and the first place; `None` if there is no such part.
fn range(text: &str, start: Option<Value>, end: Option<Value>) -> Result<Option<(usize, &str)>> {
    if start.is_none() && end.is_none() {
        return Ok(Some((0, text)));
    }
    let len = text.chars().count();
    let place = |value: Option<Value>, default: usize| -> Result<usize> {
        let Some(value) = given(value) else { return Ok(default) };
        let at = value.int()?;
        let at = if at < 0 { at.saturating_add(len as i128).max(0) } else { at };
        Ok(usize::try_from(at).unwrap_or(usize::MAX))
    };
    let (begin, end) = (place(start, 0)?, place(end, len)?.min(len));
    if begin > end {
        return Ok(None);
    }
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    Ok(Some((begin, &text[byte(begin)..byte(end)])))
}
