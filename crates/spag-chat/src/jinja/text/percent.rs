//! Python's `'%s' % value`.

use super::escape_value;
use super::pad::{Align, pad};
use super::spec::{Spec, number};
use crate::jinja::budget::{Budget, NODE, Out};
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::value::{self, Text, Value};

/// The values, some of which are consumed.
struct Values<'a> {
    values: &'a [Value],
    taken: usize,
}

impl<'a> Values<'a> {
    fn next(&mut self) -> Result<&'a Value> {
        let value = self.values.get(self.taken);
        self.taken += 1;
        value.ok_or_else(|| Error::new("not enough arguments for format string"))
    }
}

/// Formats the values into the text.
pub(crate) fn percent(budget: &Budget, format: &Text, values: &Value) -> Result<Value> {
    let mapping = matches!(values, Value::Dict(_) | Value::List(_) | Value::Range(_)).then_some(values);
    let values = if let Value::Tuple(seq) = values { &seq.items } else { std::slice::from_ref(values) };
    let mut left = Values { values, taken: 0 };
    let mut out = Out::new(budget);
    let mut rest = &*format.text;
    while let Some((before, mark)) = rest.split_once('%') {
        out.push(before)?;
        budget.work(NODE)?;
        rest = mark;
        let mut named = None;
        if let Some(mark) = mark.strip_prefix('(') {
            let Some(mapping) = mapping else { return fail!("format requires a mapping") };
            let (key, after) = mark.split_once(')').ok_or_else(|| Error::new("incomplete format key"))?;
            let value = mapping.entry(budget, &Value::plain(key));
            named = Some(value.ok_or_else(|| Error::new(format!("KeyError: {}", value::quoted(key))))?);
            (rest, left.taken) = (after, left.values.len());
        }
        let spec = flags(&mut rest, &mut left)?;
        if spec.kind == Some('%') {
            out.push("%")?;
        } else {
            let value = if let Some(named) = &named { named } else { left.next()? };
            out.push(&converted(budget, spec, value, format.markup)?)?;
        }
    }
    out.push(rest)?;
    if left.taken < left.values.len() && mapping.is_none() {
        return fail!("not all arguments converted during string formatting");
    }
    Value::made(budget, out.text, format.markup)
}

/// Parses flags, width, precision and type.
fn flags(rest: &mut &str, left: &mut Values<'_>) -> Result<Spec> {
    let mut spec = Spec::default();
    let (flags, after) = rest.split_at(rest.bytes().take_while(|byte| b"-0#+ ".contains(byte)).count());
    *rest = after;
    spec.is_alternate = flags.contains('#');
    spec.sign = ['+', ' '].into_iter().find(|sign| flags.contains(*sign));
    if flags.contains('0') {
        (spec.fill, spec.align) = (Some('0'), Some(Align::AfterSign));
    }
    spec.width = size(rest, left)?;
    if flags.contains('-') || spec.width < 0 {
        (spec.fill, spec.align) = (None, Some(Align::Left));
    }
    spec.width = spec.width.saturating_abs();
    if let Some(after) = rest.strip_prefix('.') {
        *rest = after;
        spec.precision = Some(usize::try_from(size(rest, left)?.max(0)).unwrap_or(usize::MAX));
    }
    let mut chars = rest.trim_start_matches(['h', 'l', 'L']).chars();
    spec.kind = chars.next();
    *rest = chars.as_str();
    if spec.kind.is_none() { fail!("incomplete format") } else { Ok(spec) }
}

/// A number in the format, or the next value for `*`.
fn size(rest: &mut &str, left: &mut Values<'_>) -> Result<i128> {
    match rest.strip_prefix('*') {
        Some(after) => {
            *rest = after;
            left.next()?.int()
        }
        None => Ok(number(rest)?.unwrap_or(0) as i128),
    }
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
