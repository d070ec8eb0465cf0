//! Finds special tokens in texts.

use std::collections::HashSet;
use std::ops::Range;

/// How special tokens in an encoded text, such as `</s>`, are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Matched, the default of transformers.
    #[default]
    Matched,
    /// Ordinary text, so that players cannot inject special tokens.
    AsText,
}

/// The texts of special tokens, to be found in a text. Those of one character, such as a full stop for padding, are
/// indistinguishable from that character.
#[derive(Default)]
pub(super) struct SpecialTexts {
    texts: HashSet<String>,
    /// The distinct lengths of the texts in bytes.
    lengths: Vec<usize>,
    first: HashSet<char>,
}

impl SpecialTexts {
    pub(super) fn new<'a>(texts: impl Iterator<Item = &'a String>) -> Self {
        let texts: HashSet<String> = texts.filter(|text| text.chars().nth(1).is_some()).cloned().collect();
        let mut lengths: Vec<usize> = texts.iter().map(String::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let first = texts.iter().filter_map(|text| text.chars().next()).collect();
        Self { texts, lengths, first }
    }

    /// The ranges of special tokens in a text, in order of their start. They may overlap.
    pub(super) fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let starts = text.char_indices().filter(|(_, c)| self.first.contains(c)).map(|(start, _)| start);
        starts.flat_map(move |start| {
            let ranges = self.lengths.iter().map(move |length| start..start + length);
            ranges.filter(|range| text.get(range.clone()).is_some_and(|found| self.texts.contains(found)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_texts_are_found_wherever_they_begin() {
        let texts = ["<s>", "<|im_end|>", "<|im", ".", "é<"].map(str::to_owned);
        let special = SpecialTexts::new(texts.iter());
        let found: Vec<Range<usize>> = special.find("a.<s><|im_end|>é<s>").collect();
        assert_eq!(found, [2..5, 5..9, 5..15, 15..18, 17..20]);
        assert_eq!(special.find("<s <|i").count(), 0);
        assert_eq!(SpecialTexts::new([].iter()).find("<s>").count(), 0);
    }
}
