//! Numbers as they are written: separators of thousands, decimals, repeating decimals, and powers of ten after an `e`.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::expr::Expr;

/// Characters of a number that has a value.
const LONGEST: usize = 400;
/// Commands over the digits that repeat.
const REPEATS: [&str; 2] = ["\\overline{", "\\bar{"];

/// Whether a number starts here.
pub(crate) fn starts(chars: &[char]) -> bool {
    match chars {
        [c, ..] if c.is_ascii_digit() => true,
        ['.', rest @ ..] => rest.first().is_some_and(char::is_ascii_digit) || period(rest).is_some(),
        _ => false,
    }
}

/// The number at the start, as `1234.5`, `0.1(6)` or `4.5e-33`, and its length in the text. A comma separates thousands outside of
/// brackets, of which `depth` are open; `{,}`, `\,` and `\!` do anywhere.
pub(crate) fn read(chars: &[char], depth: usize) -> (String, usize) {
    let mut at = digits(chars);
    let mut text: String = chars[..at].iter().collect();
    if (1..=3).contains(&text.len()) {
        while let Some(length) = separator(&chars[at..], depth) {
            let end = at + length + digits(&chars[at + length..]);
            text.extend(&chars[at + length..end]);
            at = end;
        }
    }
    if let ['.', rest @ ..] = &chars[at..]
        && starts(&chars[at..])
    {
        let length = digits(rest);
        text.push('.');
        text.extend(&rest[..length]);
        at += 1 + length;
        if let Some((repeated, length)) = period(&rest[length..]) {
            text.push('(');
            text.extend(repeated);
            text.push(')');
            at += length;
        }
    }
    if let ['e' | 'E', rest @ ..] = &chars[at..] {
        let sign = usize::from(matches!(rest, ['+' | '-' | '−', ..]));
        let length = digits(&rest[sign..]);
        if length > 0 {
            text.push_str(if sign == 1 && rest[0] != '+' { "e-" } else { "e" });
            text.extend(&rest[sign..sign + length]);
            at += 1 + sign + length;
        }
    }
    (text, at)
}

/// The text with the constant e in place of signed exponents of whole numbers: `2e-1` may be 0.2 and 2e − 1. `None` if it has none.
pub(crate) fn with_constant(text: &str) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut changed = String::with_capacity(text.len() + 1);
    for (at, c) in chars.iter().enumerate() {
        changed.push(*c);
        if let ['e', '+' | '-' | '−', digit, ..] = &chars[at..]
            && digit.is_ascii_digit()
        {
            let mantissa = chars[..at].iter().rev().take_while(|c| c.is_ascii_digit()).count();
            if mantissa > 0 && !chars[..at - mantissa].ends_with(&['.']) {
                // A blank ends the number.
                changed.push(' ');
            }
        }
    }
    (changed.len() > text.len()).then_some(changed)
}

fn digits(chars: &[char]) -> usize {
    chars.iter().take_while(|c| c.is_ascii_digit()).count()
}

/// The digits that repeat, and the length of what says so.
fn period(chars: &[char]) -> Option<(&[char], usize)> {
    let is_at_start = |command: &&&str| command.chars().zip(chars).filter(|(a, b)| a == *b).count() == command.len();
    let start = REPEATS.iter().find(is_at_start)?.len();
    let end = start + digits(&chars[start..]);
    (end > start && chars.get(end) == Some(&'}')).then(|| (&chars[start..end], end + 1))
}

/// The length of a separator of thousands.
fn separator(chars: &[char], depth: usize) -> Option<usize> {
    let rest: String = chars.iter().take(7).collect();
    let found = ["{,}", ",\\!", "\\,", "\\!", ","].iter().find(|sign| rest.starts_with(**sign))?;
    if *found == "," && depth > 0 {
        return None;
    }
    (digits(&chars[found.len()..]) == 3).then_some(found.len())
}

/// The value of a number that was read. A power of ten stays one, so that a large exponent makes no large number.
pub(crate) fn value(text: &str) -> Option<Expr> {
    if text.len() > LONGEST {
        return None;
    }
    let (mantissa, exponent) = text.split_once('e').map_or((text, None), |(mantissa, e)| (mantissa, Some(e)));
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (part, repeated) = decimals.split_once('(').unwrap_or((decimals, ""));
    let repeated = repeated.trim_end_matches(')');
    let tens = |digits: &str| u32::try_from(digits.len()).map(|length| BigInt::from(10).pow(length)).ok();
    let mut value = BigRational::new(format!("0{whole}{part}").parse().ok()?, tens(part)?);
    if !repeated.is_empty() {
        value += BigRational::new(repeated.parse().ok()?, (tens(repeated)? - 1) * tens(part)?);
    }
    let exponent: Option<BigInt> = exponent.map(str::parse).transpose().ok()?;
    let is_small = exponent.as_ref().is_some_and(|exponent| *exponent < BigInt::ZERO);
    let number = Expr::Number { value, is_decimal: repeated.is_empty() && !part.is_empty() || is_small };
    let Some(exponent) = exponent else { return Some(number) };
    let whole = |value: BigInt| Box::new(Expr::Number { value: value.into(), is_decimal: false });
    Some(Expr::Product(vec![number, Expr::Power(whole(10.into()), whole(exponent))]))
}
