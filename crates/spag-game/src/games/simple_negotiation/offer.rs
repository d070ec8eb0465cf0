//! Offers in the text of an action.

use super::Good;
use crate::games::patterns::{Cursor, letter};

/// An amount of each good, in the order of the goods.
pub(super) type Bundle = Vec<u64>;

/// An offer that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) from: usize,
    pub(super) trade: Trade,
}

/// What its maker gives, and what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trade {
    pub(super) offered: Bundle,
    pub(super) requested: Bundle,
}

/// What stands between `[offer` in any case and the next bracket, the first time that it is not empty and this bracket is `]`.
///
/// These are the matches of `\[offer:?\s*(?:I\s+(?:give|offer)\s+)?([^\[\]]+?)\s*\.*\]`. What the pattern leaves out of its
/// group holds neither `->` nor digits, so that it does not change the trade.
pub(super) fn find(action: &str) -> Option<&str> {
    crate::games::patterns::after_bracket(action, |mut at| {
        at.text("offer")?;
        let end = at.0.find(['[', ']']).filter(|end| *end > 0)?;
        let (offer, rest) = at.0.split_at(end);
        rest.starts_with(']').then_some(offer)
    })
}

impl Trade {
    /// A trade of two bundles around `->`.
    pub(super) fn parse(offer: &str, goods: &[Good]) -> Option<Self> {
        let mut parts = offer.split("->").map(|part| bundle(part, goods));
        let (offered, requested) = (parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self { offered: offered?, requested: requested? })
    }
}

/// All amounts with a name, `(\d+)\s+([A-Za-z]+)` in any case. `None` if there are none, or one is 0 or of no good.
fn bundle(part: &str, goods: &[Good]) -> Option<Bundle> {
    let mut bundle = vec![0u64; goods.len()];
    let (mut at, mut found) = (Cursor(part), false);
    while !at.0.is_empty() {
        let Some((amount, name)) = amount_and_name(&mut at) else { continue };
        let good = goods.iter().position(|good| is_name(name, good.name)).filter(|_| amount > 0)?;
        bundle[good] = bundle[good].saturating_add(amount);
        found = true;
    }
    found.then_some(bundle)
}

/// Takes an amount with its name, or at least one character.
fn amount_and_name<'a>(at: &mut Cursor<'a>) -> Option<(u64, &'a str)> {
    let Some(amount) = at.number() else {
        let mut rest = at.0.chars();
        rest.next();
        at.0 = rest.as_str();
        return None;
    };
    if !at.spaces() {
        return None;
    }
    Some((amount.saturated(), at.letters()?))
}

/// Whether a name in title case is that of a good, or its plural with s for Sheep and Wood.
fn is_name(name: &str, good: &str) -> bool {
    let plural = matches!(good, "Sheep" | "Wood").then(|| format!("{good}s"));
    [Some(good), plural.as_deref()].into_iter().flatten().any(|good| is_title(name, good))
}

/// Whether Python's `str.title` of `name` is `title`, an ASCII text.
fn is_title(name: &str, title: &str) -> bool {
    let mut expected = title.chars();
    let same = name.char_indices().all(|(at, c)| {
        let expected = expected.next().map(|expected| expected.to_ascii_lowercase());
        // Of the characters beyond ASCII, title case makes an ASCII letter of these only: ſ and ı at the start, K elsewhere.
        let reaches = c.is_ascii() || matches!((at, c), (0, '\u{17f}' | '\u{131}')) || (at > 0 && c == '\u{212a}');
        reaches && letter(c) == expected
    });
    same && expected.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::FIVE;
    use super::*;

    fn parsed(action: &str) -> Option<Option<(Bundle, Bundle)>> {
        find(action).map(|offer| Trade::parse(offer, FIVE).map(|trade| (trade.offered, trade.requested)))
    }

    #[test]
    fn offers_are_those_of_the_pattern() {
        let one = Some(Some((vec![3, 0, 0, 0, 0], vec![0, 0, 0, 0, 2])));
        for action in [
            "[Offer: 3 Wheat -> 2 Ore]",
            "[offerI GİVE 3 wheat->2 oRe...]",
            "[offer[x][offer: 1 wheat and\n2 WHEAT please -> some 2  Ore or so.]",
            "[offer]] [Offer ٣ wheat -> ２ ore, 3]",
        ] {
            assert_eq!(parsed(action), one, "{action}");
        }
        for action in [
            "[offer: 3 Wheats -> 2 Ore]",
            "[offer ]",
            "[offer:] [offer: 3 Wheat -> 2 Ore]",
            "[offer: 0 Wheat -> 2 Ore]",
            "[offer: 1 Ore -> 2 Ore -> 1 Ore]",
        ] {
            assert_eq!(parsed(action), Some(None), "{action}");
        }
        for action in ["[offer]", "offer: 3 Wheat -> 2 Ore", "[offer: 3 Wheat -> 2 Ore", "[ offer: 3 Wheat -> 2 Ore]"] {
            assert_eq!(parsed(action), None, "{action}");
        }
        let odd = parsed("[offer: 3 ſheeps, 1 bric\u{212a} -> 2 woods]");
        assert_eq!(odd, Some(Some((vec![0, 0, 3, 1, 0], vec![0, 2, 0, 0, 0]))));
        assert_eq!(parsed("[offer: 3 sheepſ -> 2 woods]"), Some(None));
    }
}
