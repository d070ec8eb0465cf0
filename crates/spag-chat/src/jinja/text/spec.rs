//! Python's format specification mini-language: `[[fill]align][sign][#][0][width][grouping][.precision][type]`.

use super::pad::{Align, pad};
use crate::jinja::budget::Budget;
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::value::{self, Value, float_text};

/// A format specification.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spec {
    pub(super) fill: Option<char>,
    pub(super) align: Option<Align>,
    /// `+` or a blank before numbers that are not negative.
    pub(super) sign: Option<char>,
    pub(super) is_alternate: bool,
    pub(super) width: i128,
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

/// `format(value, spec)`.
pub(super) fn format(budget: &Budget, value: &Value, spec: &str) -> Result<String> {
    if spec.is_empty() {
        return value::text(budget, value);
    }
    let spec = Spec::parse(spec)?;
    match value {
        Value::Text(text) => {
            if !matches!(spec.kind, None | Some('s'))
                || spec.sign.is_some()
                || spec.grouping.is_some()
                || spec.align == Some(Align::AfterSign)
            {
                return fail!("the format does not fit a value of type 'str'");
            }
            budget.text(text.text.len())?;
            let cut = text.text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
            pad(budget, cut, spec.width, spec.fill.unwrap_or(' '), spec.align.unwrap_or(Align::Left))
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => spec.number(budget, value),
        other => fail!("unsupported format string passed to {}.__format__", other.type_name()),
    }
}

impl Spec {
    fn parse(spec: &str) -> Result<Self> {
        let invalid = || Error::new("Invalid format specifier");
        let align = |c: char| match c {
            '<' => Some(Align::Left),
            '>' => Some(Align::Right),
            '^' => Some(Align::Center),
            '=' => Some(Align::AfterSign),
            _ => None,
        };
        let mut parsed = Self::default();
        let mut rest = spec;
        let mut chars = rest.chars();
        let (first, second) = (chars.next(), chars.next());
        if let (Some(fill), Some(found)) = (first, second.and_then(align)) {
            (parsed.fill, parsed.align) = (Some(fill), Some(found));
            rest = chars.as_str();
        } else if let Some(found) = first.and_then(align) {
            parsed.align = Some(found);
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix(['-', '+', ' ']) {
            parsed.sign = rest.chars().next().filter(|sign| *sign != '-');
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('#') {
            (parsed.is_alternate, rest) = (true, after);
        }
        if let Some(after) = rest.strip_prefix('0') {
            parsed.fill = parsed.fill.or(Some('0'));
            parsed.align = parsed.align.or(Some(Align::AfterSign));
            rest = after;
        }
        parsed.width = number(&mut rest)?.unwrap_or(0) as i128;
        if let Some(after) = rest.strip_prefix([',', '_']) {
            parsed.grouping = rest.chars().next();
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            parsed.precision = Some(number(&mut rest)?.ok_or_else(invalid)?);
        }
        let mut chars = rest.chars();
        parsed.kind = chars.next();
        if chars.next().is_some() { Err(invalid()) } else { Ok(parsed) }
    }

    /// A number with sign, groups and padding.
    pub(super) fn number(&self, budget: &Budget, value: &Value) -> Result<String> {
        let (is_negative, prefix, digits) = match (value, self.kind) {
            (Value::Int(_) | Value::Bool(_), None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X' | 'c')) => {
                if self.precision.is_some() {
                    return fail!("Precision not allowed in integer format specifier");
                }
                let value = value.int()?;
                let size = value.unsigned_abs();
                let (prefix, digits) = match self.kind {
                    Some('b') => ("0b", format!("{size:b}")),
                    Some('o') => ("0o", format!("{size:o}")),
                    Some('x') => ("0x", format!("{size:x}")),
                    Some('X') => ("0X", format!("{size:X}")),
                    Some('c') => match u32::try_from(value).ok().and_then(char::from_u32) {
                        Some(c) => ("", c.to_string()),
                        None => return fail!("%c arg not in range(0x110000)"),
                    },
                    _ => ("", size.to_string()),
                };
                (value < 0, if self.is_alternate { prefix } else { "" }, digits)
            }
            (value, kind) => {
                let float = value.as_float().unwrap_or(f64::NAN);
                let digits = float_digits(budget, float.abs(), kind, self.precision, self.is_alternate)?;
                (float.is_sign_negative() && !float.is_nan(), "", digits)
            }
        };
        let sign = if is_negative { "-".to_owned() } else { self.sign.map(String::from).unwrap_or_default() };
        let (fill, align) = (self.fill.unwrap_or(' '), self.align.unwrap_or(Align::Right));
        let digits = match self.grouping {
            Some(separator) => {
                let own = (sign.len() + prefix.len()) as i128;
                let width = if (fill, align) == ('0', Align::AfterSign) { self.width.saturating_sub(own) } else { 0 };
                let each = if matches!(self.kind, Some('b' | 'o' | 'x' | 'X')) { 4 } else { 3 };
                grouped(budget, &digits, separator, each, width)?
            }
            None => digits,
        };
        if align == Align::AfterSign {
            let width = self.width.saturating_sub((sign.len() + prefix.len()) as i128);
            return Ok(sign + prefix + &pad(budget, digits, width, fill, Align::Right)?);
        }
        pad(budget, sign + prefix + &digits, self.width, fill, align)
    }
}

/// Parses and consumes the number at the start of a text, if any.
pub(super) fn number(rest: &mut &str) -> Result<Option<usize>> {
    let (digits, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    *rest = after;
    let many = |_| Error::new("Too many decimal digits in format string");
    if digits.is_empty() { Ok(None) } else { digits.parse().map(Some).map_err(many) }
}

/// Digits with a separator after each group, zero-padded to a width.
fn grouped(budget: &Budget, digits: &str, separator: char, each: usize, width: i128) -> Result<String> {
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(end);
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX).saturating_sub(rest.len());
    budget.text(width)?;
    let mut len = whole.len();
    while len + len.saturating_sub(1) / each < width {
        len += 1;
    }
    let mut out = String::new();
    for (index, c) in std::iter::repeat_n('0', len - whole.len()).chain(whole.chars()).enumerate() {
        if index > 0 && (len - index) % each == 0 {
            out.push(separator);
        }
        out.push(c);
    }
    Ok(out + rest)
}

/// The digits of a non-negative float.
pub(super) fn float_digits(
    budget: &Budget,
    value: f64,
    kind: Option<char>,
    precision: Option<usize>,
    is_alternate: bool,
) -> Result<String> {
    let is_upper = kind.is_some_and(char::is_uppercase);
    let text = if !value.is_finite() {
        float_text(value) + if kind == Some('%') { "%" } else { "" }
    } else {
        match kind.map(|kind| kind.to_ascii_lowercase()) {
            Some('f') => fixed(budget, value, precision.unwrap_or(6))?,
            Some('%') => fixed(budget, value * 100.0, precision.unwrap_or(6))? + "%",
            Some('e') => scientific(budget, value, precision.unwrap_or(6))?,
            Some('g' | 'n') => general(budget, value, precision.unwrap_or(6).max(1), is_alternate)?,
            None => match precision {
                None => float_text(value),
                Some(precision) => {
                    let text = general(budget, value, precision.max(1), false)?;
                    let is_whole = !text.contains(['.', 'e']);
                    if is_whole && text.len() >= precision.max(1) {
                        general_scientific(budget, value, precision.max(1))?
                    } else if is_whole {
                        text + ".0"
                    } else {
                        text
                    }
                }
            },
            _ => return fail!("Unknown format code '{}' for object of type 'float'", kind.unwrap_or(' ')),
        }
    };
    Ok(if is_upper { text.to_uppercase() } else { text })
}

/// Maximum digits of a float after its point.
const DIGITS: usize = 1100;

fn fixed(budget: &Budget, value: f64, precision: usize) -> Result<String> {
    budget.text(precision.saturating_add(400))?;
    let mut text = format!("{value:.*}", precision.min(DIGITS));
    text.extend(std::iter::repeat_n('0', precision.saturating_sub(DIGITS)));
    Ok(text)
}

fn scientific(budget: &Budget, value: f64, precision: usize) -> Result<String> {
    budget.text(precision.saturating_add(400))?;
    let text = format!("{value:.*e}", precision.min(DIGITS));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let zeros = "0".repeat(precision.saturating_sub(DIGITS));
    Ok(format!("{digits}{zeros}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()))
}

fn general(budget: &Budget, value: f64, precision: usize, is_alternate: bool) -> Result<String> {
    let precision = precision.min(DIGITS);
    let text = scientific(budget, value, precision - 1)?;
    let exponent: i64 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if exponent < -4 || exponent >= precision as i64 {
        return if is_alternate { Ok(text) } else { general_scientific(budget, value, precision) };
    }
    let decimals = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
    let text = fixed(budget, value, decimals)?;
    Ok(if is_alternate { text } else { without_zeros(&text).to_owned() })
}

fn general_scientific(budget: &Budget, value: f64, precision: usize) -> Result<String> {
    let text = scientific(budget, value, precision - 1)?;
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, ""));
    Ok(format!("{}e{exponent}", without_zeros(digits)))
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
