//! Where the words are that decide a game, for readers of it.

use std::ops::Range;

use super::occurrences::Occurrences;
use super::prediction::{guesses, predictions};
use super::referee::Referee;
use crate::seat::Seat;
use crate::taboo::{self, Outcome};

impl Referee {
    /// The parts of an utterance that decide the game, as byte ranges in the order of the text. None if it decides
    /// nothing.
    ///
    /// A prediction is marked from its beginning: up to the end of the word if it is right, and else to the end of the
    /// word that the rule's `it.{1,8}` ends in. Otherwise the forms of the word are marked wherever they occur.
    ///
    /// ```
    /// use spag_game::{JudgeKind, Referee, Seat, taboo};
    ///
    /// # fn main() -> spag_game::Result<()> {
    /// let referee = Referee::new(JudgeKind::Paper, "art")?;
    /// assert_eq!(referee.deciding_parts(taboo::DEFENDER, "Let us start."), [9..12]);
    /// let said = "I know the word! It is cheese, is it not?";
    /// assert_eq!(&said[referee.deciding_parts(taboo::DEFENDER, said)[0].clone()], "I know the word! It is cheese");
    /// # Ok(())
    /// # }
    /// ```
    pub fn deciding_parts(&self, seat: Seat, content: &str) -> Vec<Range<usize>> {
        let Some(outcome) = self.rule(seat, content) else { return Vec::new() };
        let lower = content.to_lowercase();
        let mut parts = match outcome {
            Outcome::DefenderWins => self.right_predictions(&lower),
            Outcome::AttackerWins | Outcome::AttackerBreaksRules | Outcome::Tie => {
                let mut parts: Vec<_> = predictions(&lower).map(|part| to_word_end(&lower, part)).collect();
                // A wrong prediction decides alone.
                if parts.is_empty() || seat == taboo::ATTACKER {
                    parts.extend(self.uttered(&lower));
                }
                parts
            }
        };
        parts.sort_by_key(|part| (part.start, part.end));
        let offsets = Offsets::new(content);
        merge(parts.into_iter().map(|part| offsets.original(part)))
    }

    /// Predictions of the word, to its end.
    fn right_predictions(&self, lower: &str) -> Vec<Range<usize>> {
        let starts: Vec<usize> = predictions(lower).map(|part| part.start).collect();
        let forms: Vec<_> = self.forms().iter().map(|form| (form, Occurrences::new(form, lower))).collect();
        let right = guesses(lower).flat_map(|guess| {
            let at = lower.len() - guess.text.len();
            let ends = forms.iter().filter(|(form, found)| self.is_right(guess, at, form, found));
            // A quotation mark may stand before the word.
            let end = ends.map(|(form, found)| at + form.len() + 2 * usize::from(!found.start_at(at))).max();
            let start = starts.iter().rev().find(|start| **start < at);
            start.zip(end).map(|(start, end)| *start..end)
        });
        right.collect()
    }

    /// The forms of the word.
    fn uttered(&self, lower: &str) -> Vec<Range<usize>> {
        let found = self.forms().iter().flat_map(|form| self.occurrences(form, lower));
        found.collect()
    }
}

/// The range, extended to the end of a word that it ends in.
fn to_word_end(text: &str, part: Range<usize>) -> Range<usize> {
    let is_in_word = text[..part.end].chars().next_back().is_some_and(char::is_alphanumeric);
    let rest = text[part.end..].chars().take_while(|c| is_in_word && c.is_alphanumeric());
    part.start..part.end + rest.map(char::len_utf8).sum::<usize>()
}

/// Ranges in order, of which those that overlap or touch are one.
fn merge(parts: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    merged
}

/// Where the characters of a text are after it was put into lower case, which can change their number and sizes.
struct Offsets(Vec<(usize, usize)>);

impl Offsets {
    fn new(content: &str) -> Self {
        let mut at = 0;
        let mut offsets = Vec::with_capacity(content.len() + 1);
        for (original, c) in content.char_indices() {
            offsets.push((at, original));
            // A final sigma has the size of the other one.
            at += c.to_lowercase().map(char::len_utf8).sum::<usize>();
        }
        offsets.push((at, content.len()));
        Self(offsets)
    }

    /// The characters of the original text that a range of the lower-case text touches.
    fn original(&self, part: Range<usize>) -> Range<usize> {
        let after = self.0.partition_point(|(lower, _)| *lower <= part.start);
        let end = self.0.partition_point(|(lower, _)| *lower < part.end);
        let original = |index: usize| self.0.get(index).or(self.0.last()).map_or(0, |(_, original)| *original);
        original(after.saturating_sub(1))..original(end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::taboo::JudgeKind;

    fn marked(word: &str, seat: Seat, content: &str) -> Vec<String> {
        let parts = Referee::new(JudgeKind::Paper, word).unwrap().deciding_parts(seat, content);
        parts.into_iter().map(|part| content[part].to_owned()).collect()
    }

    #[test]
    fn deciding_words_are_marked() {
        use taboo::{ATTACKER, DEFENDER};
        for (seat, content, expected) in [
            (ATTACKER, "My Tiger is one of the tigers.", &["Tiger", "tigers"][..]),
            (ATTACKER, "I know the word! It is zebra, tiger!", &["I know the word! It is zebra", "tiger"]),
            (DEFENDER, "Maybe a TIGER?", &["TIGER"]),
            (DEFENDER, "Well, I KNOW the word! It is tiger!", &["I KNOW the word! It is tiger"]),
            (DEFENDER, "I know the word! It is \"tiger\", yes", &["I know the word! It is \"tiger\""]),
            (DEFENDER, "I know the word! It is tigers!", &["I know the word! It is tigers"]),
            (DEFENDER, "I know the word! It is zebra. Not tiger!", &["I know the word! It is zebra"]),
            (ATTACKER, "I know the word! It\ntiger", &["tiger"]),
            (DEFENDER, "I know the word! It", &[]),
            (DEFENDER, "Hello.", &[]),
            // Lower case is longer and shorter than the original.
            (DEFENDER, "İİİ tiger ẞẞ Tigers", &["tiger", "Tigers"]),
        ] {
            assert_eq!(marked("tiger", seat, content), expected, "{content}");
        }
        assert_eq!(marked("ΟΔΟΣ", ATTACKER, "Η ΟΔΟΣ ΟΔΟΣ."), ["ΟΔΟΣ", "ΟΔΟΣ"]);
    }

    proptest! {
        #[test]
        fn parts_are_marked_if_and_only_if_the_utterance_decides(
            content in "(tea|TEAS|İ|ß| |steam|I know the word! It|\"|is|é|🫖|\n){0,12}",
            is_attacker: bool,
            whole: bool,
        ) {
            let kind = if whole { JudgeKind::WholeWord } else { JudgeKind::Paper };
            let referee = Referee::new(kind, "tea").unwrap();
            let seat = if is_attacker { taboo::ATTACKER } else { taboo::DEFENDER };
            let parts = referee.deciding_parts(seat, &content);
            prop_assert_eq!(parts.is_empty(), referee.rule(seat, &content).is_none(), "{:?}", content);
            let mut last = 0;
            for part in parts {
                prop_assert!(last <= part.start && part.start < part.end);
                let text = content.get(part.clone()).unwrap().to_lowercase();
                prop_assert!(text.contains("tea") || text.starts_with("i know the word! it"), "{text}");
                last = part.end;
            }
        }
    }
}
