//! Python's `'{}'.format(value)`.

use super::{escape_value, spec};
use crate::jinja::access::{attribute, subscript};
use crate::jinja::budget::{NODE, Out};
use crate::jinja::call::Call;
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{self, Value};

/// `text.format(…)`.
pub(super) fn format(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let lookup = |name: &str| {
        call.budget.work(call.rest.named.len() * 8)?;
        Ok(call.rest.named.iter().find(|(found, _)| **found == *name).map(|(_, value)| value.clone()))
    };
    filled(call, value, &lookup)
}

/// `text.format_map(mapping)`.
pub(super) fn format_map(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    filled(call, value, &|name| Ok(call.arg(0).entry(call.budget, &Value::plain(name))))
}

type Lookup<'a> = &'a dyn Fn(&str) -> Result<Option<Value>>;

fn filled(call: &Call<'_>, value: &Value, lookup: Lookup<'_>) -> Result<Value> {
    let text = call.own(value)?;
    let positional = &call.rest.positional;
    let mut fields = Fields { run: call.run, positional, lookup, next: 0, is_placed: false, markup: text.markup };
    call.made(fields.fill(&text.text, 2)?, &text)
}

struct Fields<'a> {
    run: &'a Run,
    positional: &'a [Value],
    lookup: Lookup<'a>,
    /// The index of the next `{}`.
    next: usize,
    /// Whether a field has an explicit index, such as `{0}`.
    is_placed: bool,
    markup: bool,
}

impl Fields<'_> {
    /// Fills the fields of the text, nested up to `levels` deep.
    fn fill(&mut self, text: &str, levels: usize) -> Result<String> {
        if levels == 0 {
            return fail!("Max string recursion exceeded");
        }
        let mut out = Out::new(&self.run.budget);
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            out.push(&rest[..at])?;
            self.run.budget.work(NODE)?;
            let (brace, after) = rest[at..].split_at(1);
            if after.starts_with(brace) {
                out.push(brace)?;
                rest = &after[1..];
                continue;
            }
            if brace == "}" {
                return fail!("Single '}}' encountered in format string");
            }
            let end = end(after).ok_or_else(|| Error::new("expected '}' before end of string"))?;
            let filled = self.field(&after[..end], levels)?;
            out.push(&filled)?;
            rest = &after[end + 1..];
        }
        out.push(rest)?;
        Ok(out.text)
    }

    fn field(&mut self, field: &str, levels: usize) -> Result<String> {
        let split = field.find([':', '!']).unwrap_or(field.len());
        let (name, mut rest) = field.split_at(split);
        let value = self.value(name)?;
        let budget = &self.run.budget;
        let mut conversion = None;
        if let Some(after) = rest.strip_prefix('!') {
            conversion = after.chars().next();
            rest = &after[conversion.map_or(0, char::len_utf8)..];
        }
        let spec = match rest.strip_prefix(':') {
            Some(spec) => self.fill(spec, levels - 1)?,
            None if rest.is_empty() => String::new(),
            None => return fail!("expected ':' after conversion specifier"),
        };
        let value = match conversion {
            None => value,
            Some('s') => Value::text(budget, value::text(budget, &value)?)?,
            Some('r' | 'a') => Value::text(budget, value::repr(budget, &value)?)?,
            Some(other) => return fail!("Unknown conversion specifier {other:?}"),
        };
        if self.markup && spec.is_empty() {
            return Ok(escape_value(budget, &value)?.text.to_string());
        }
        spec::format(budget, &value, &spec)
    }

    fn value(&mut self, name: &str) -> Result<Value> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at(end);
        let mut value = if first.is_empty() || first.bytes().all(|byte| byte.is_ascii_digit()) {
            let index = if first.is_empty() { self.next } else { first.parse().unwrap_or(usize::MAX) };
            self.next += usize::from(first.is_empty());
            self.is_placed |= !first.is_empty();
            if self.is_placed && self.next > 0 {
                return fail!("cannot switch between manual field specification and automatic field numbering");
            }
            let value = self.positional.get(index).cloned();
            value.ok_or_else(|| {
                Error::new(format!("Replacement index {index} out of range for positional args tuple"))
            })?
        } else {
            let value = (self.lookup)(first)?;
            value.ok_or_else(|| Error::new(format!("KeyError: {}", value::quoted(first))))?
        };
        while !rest.is_empty() {
            self.run.budget.work(NODE)?;
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                value = attribute(self.run, &value, &after[..end])?;
                rest = &after[end..];
            } else {
                let Some((key, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
                    return fail!("expected '.' or '[…]' in a field of the format string");
                };
                let key = key.parse().map_or_else(|_| Value::plain(key), Value::Int);
                value = subscript(self.run, &value, &key)?;
                rest = after;
            }
        }
        Ok(value)
    }
}

/// The end of a field, including nested fields.
fn end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}
