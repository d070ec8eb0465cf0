//! Padding of texts to a width.

use crate::jinja::budget::Budget;
use crate::jinja::error::Result;

/// The alignment of a text within its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
    Center,
    /// As `str.center`: an odd fill character goes to the left if the width is odd.
    CenterOfText,
    /// Fill between sign and digits.
    AfterSign,
}

/// Pads the text to at least `width` characters.
pub(crate) fn pad(budget: &Budget, text: String, width: i128, fill: char, align: Align) -> Result<String> {
    let len = text.chars().count();
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    if width <= len {
        return Ok(text);
    }
    let missing = width - len;
    budget.text(missing.saturating_mul(fill.len_utf8()).saturating_add(text.len()))?;
    let left = match align {
        Align::Left => 0,
        Align::Right | Align::AfterSign => missing,
        Align::Center => missing / 2,
        Align::CenterOfText => missing / 2 + (missing & width & 1),
    };
    let fill_of = |count: usize| std::iter::repeat_n(fill, count);
    let sign = if align == Align::AfterSign { text.len() - text.trim_start_matches(['-', '+', ' ']).len() } else { 0 };
    let (sign, text) = text.split_at(sign);
    let mut out = String::with_capacity(sign.len() + text.len() + missing * fill.len_utf8());
    out.push_str(sign);
    out.extend(fill_of(left));
    out.push_str(text);
    out.extend(fill_of(missing - left));
    Ok(out)
}
