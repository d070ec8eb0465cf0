//! `'%s' % value` of Python.

use super::escape_value;
use super::pad::{Align, pad};
use super::spec::Spec;
use crate::jinja::budget::{Budget, NODE};
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::value::{self, Text, Value};

/// The values that are left, and how a text takes them.
struct Values<'a> {
    values: &'a [Value],
    taken: usize,
    mapping: Option<&'a Value>,
}

impl<'a> Values<'a> {
    fn next(&mut self) -> Result<&'a Value> {
        let value = self.values.get(self.taken);
        self.taken += 1;
        value.ok_or_else(|| Error::new("not enough arguments for format string"))
    }
}

/// The text with the values in place of its marks.
pub(crate) fn percent(budget: &Budget, format: &Text, values: &Value) -> Result<Value> {
    let mut left = Values {
        values: match values {
            Value::Tuple(seq) => &seq.items,
            other => std::slice::from_ref(other),
        },
        taken: 0,
        mapping: matches!(values, Value::Dict(_) | Value::List(_) | Value::Range(_)).then_some(values),
    };
    let mut out = String::new();
    let mut rest = &*format.text;
    while let Some((before, mark)) = rest.split_once('%') {
        push(budget, &mut out, before)?;
        budget.work(NODE)?;
        let mut chars = mark.chars();
        if mark.starts_with('(') {
            let (text, after) = replaced_key(budget, mark, &left, format.markup)?;
            push(budget, &mut out, &text)?;
            rest = after;
            left.taken = 1;
            continue;
        }
        let spec = flags(&mut chars, &mut left)?;
        match spec.kind {
            Some('%') => out.push('%'),
            _ => {
                let value = left.next()?;
                push(budget, &mut out, &converted(budget, spec, value, format.markup)?)?;
            }
        }
        rest = chars.as_str();
    }
    push(budget, &mut out, rest)?;
    if left.taken < left.values.len() && left.mapping.is_none() {
        return fail!("not all arguments converted during string formatting");
    }
    Value::made(budget, out, format.markup)
}

fn push(budget: &Budget, out: &mut String, text: &str) -> Result<()> {
    if out.len() + text.len() > out.capacity() {
        budget.text(out.len() + text.len())?;
    }
    out.push_str(text);
    Ok(())
}

/// `%(key)s`, from after its percent sign.
fn replaced_key<'t>(budget: &Budget, mark: &'t str, left: &Values<'_>, markup: bool) -> Result<(String, &'t str)> {
    let Some(mapping) = left.mapping else { return fail!("format requires a mapping") };
    let (key, after) = mark[1..].split_once(')').ok_or_else(|| Error::new("incomplete format key"))?;
    let value = mapping.entry(budget, &Value::plain(key));
    let value = value.ok_or_else(|| Error::new(format!("KeyError: {}", value::quoted(key))))?;
    let mut chars = after.chars();
    let mut none = Values { values: &[], taken: 0, mapping: None };
    let spec = flags(&mut chars, &mut none)?;
    let text = if spec.kind == Some('%') { "%".to_owned() } else { converted(budget, spec, &value, markup)? };
    Ok((text, chars.as_str()))
}

/// Flags, width, precision and type.
fn flags(chars: &mut std::str::Chars<'_>, left: &mut Values<'_>) -> Result<Spec> {
    let mut spec = Spec::default();
    let (mut is_left, mut has_zeros) = (false, false);
    let mut next = chars.next();
    loop {
        match next {
            Some('-') => is_left = true,
            Some('0') => has_zeros = true,
            Some('#') => spec.is_alternate = true,
            Some('+') => spec.sign = Some('+'),
            Some(' ') => spec.sign = spec.sign.or(Some(' ')),
            _ => break,
        }
        next = chars.next();
    }
    if has_zeros {
        (spec.fill, spec.align) = (Some('0'), Some(Align::AfterSign));
    }
    spec.width = number(chars, &mut next, left)?;
    if spec.width < 0 {
        (spec.width, is_left) = (spec.width.saturating_neg(), true);
    }
    if is_left {
        (spec.fill, spec.align) = (None, Some(Align::Left));
    }
    if next == Some('.') {
        next = chars.next();
        spec.precision = Some(usize::try_from(number(chars, &mut next, left)?.max(0)).unwrap_or(usize::MAX));
    }
    while matches!(next, Some('h' | 'l' | 'L')) {
        next = chars.next();
    }
    spec.kind = next;
    if next.is_none() { fail!("incomplete format") } else { Ok(spec) }
}

/// A number in the format, or the next value for `*`.
fn number(chars: &mut std::str::Chars<'_>, next: &mut Option<char>, left: &mut Values<'_>) -> Result<i128> {
    if *next == Some('*') {
        *next = chars.next();
        return left.next()?.int();
    }
    let mut number = 0_i128;
    while let Some(digit) = next.and_then(|c| c.to_digit(10)) {
        number = number.saturating_mul(10).saturating_add(digit.into());
        *next = chars.next();
    }
    Ok(number)
}

fn converted(budget: &Budget, mut spec: Spec, value: &Value, markup: bool) -> Result<String> {
    let kind = spec.kind.unwrap_or('s');
    match kind {
        's' | 'r' | 'a' => {
            let text = match kind {
                's' if markup => escape_value(budget, value)?.text.to_string(),
                's' => value::text(budget, value)?,
                _ => value::repr(budget, value)?,
            };
            padded(budget, spec, text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect())
        }
        'c' => match value {
            Value::Text(text) if text.text.chars().count() == 1 => padded(budget, spec, text.text.to_string()),
            value if value.as_int().is_some() => {
                let c = u32::try_from(value.int()?).ok().and_then(char::from_u32);
                padded(budget, spec, c.ok_or_else(|| Error::new("%c arg not in range(0x110000)"))?.to_string())
            }
            _ => fail!("%c requires int or char"),
        },
        'd' | 'i' | 'u' | 'o' | 'x' | 'X' => {
            let int = match value {
                Value::Float(float) if "diu".contains(kind) && float.is_finite() && float.abs() < 1.7e38 => {
                    *float as i128
                }
                value if value.as_int().is_some() => value.int()?,
                other => return fail!("%{kind} format: a real number is required, not {}", other.type_name()),
            };
            spec.kind = Some(if "iu".contains(kind) { 'd' } else { kind });
            if let Some(precision) = spec.precision {
                let digits =
                    Spec { kind: spec.kind, ..Spec::default() }.number(budget, &Value::Int(int.saturating_abs()))?;
                let digits = pad(budget, digits, precision.min(1 << 40) as i128, '0', Align::Right)?;
                return padded(budget, spec, if int < 0 { format!("-{digits}") } else { digits });
            }
            spec.number(budget, &Value::Int(int))
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => match value.as_float() {
            Some(float) => spec.number(budget, &Value::Float(float)),
            None => fail!("must be real number, not {}", value.type_name()),
        },
        other => fail!("unsupported format character {other:?}"),
    }
}

fn padded(budget: &Budget, spec: Spec, text: String) -> Result<String> {
    pad(budget, text, spec.width, ' ', if spec.align == Some(Align::Left) { Align::Left } else { Align::Right })
}
