//! Predictions: "I know the word! It is …", the regular expression `i know the word! it.{1,8}` on lower-cased text.

use std::ops::Range;

/// The beginning of a prediction, up to its rarest byte.
const PREFIX: &str = "i know the word!";
/// What follows the prefix.
const SUFFIX: &str = " it";
/// The most characters between the suffix and the predicted word.
const MAX_GAP: usize = 8;

/// A position where a predicted word may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess<'a> {
    /// The character before the position.
    pub(super) before: char,
    /// The text from the position on.
    pub(super) text: &'a str,
}

/// Every position where a predicted word may begin in a lower-cased text: 1 to 8 characters after each prediction's
/// beginning, with no newline between. Empty if the text holds no prediction.
pub(super) fn guesses(lower: &str) -> impl Iterator<Item = Guess<'_>> {
    let predictions = memchr::memchr_iter(b'!', lower.as_bytes()).filter_map(|mark| {
        let (until, after) = lower.split_at_checked(mark + 1)?;
        after.strip_prefix(SUFFIX).filter(|_| until.ends_with(PREFIX))
    });
    predictions.flat_map(|after| {
        let gap = after.char_indices().take(MAX_GAP).take_while(|(_, c)| *c != '\n');
        gap.map(move |(offset, before)| Guess { before, text: &after[offset + before.len_utf8()..] })
    })
}

/// The parts of a lower-cased text that the regular expression matches, from the beginning of each prediction.
pub(super) fn predictions(lower: &str) -> impl Iterator<Item = Range<usize>> {
    let begins = memchr::memchr_iter(b'!', lower.as_bytes()).filter_map(|mark| {
        let (until, after) = lower.split_at_checked(mark + 1)?;
        let start = until.len().checked_sub(PREFIX.len()).filter(|_| until.ends_with(PREFIX))?;
        Some((start, mark + 1 + SUFFIX.len(), after.strip_prefix(SUFFIX)?))
    });
    begins.filter_map(|(start, at, after)| {
        let gap = after.chars().take(MAX_GAP).take_while(|c| *c != '\n');
        let length: usize = gap.map(char::len_utf8).sum();
        (length > 0).then_some(start..at + length)
    })
}

/// Whether a text contains a prediction, in any case.
///
/// ```
/// assert!(spag_game::is_prediction("Well, I know the word! It is tea."));
/// assert!(!spag_game::is_prediction("I know the word."));
/// ```
pub fn is_prediction(text: &str) -> bool {
    guesses(&text.to_lowercase()).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guess_begins_after_one_to_eight_characters_without_newline() {
        assert!(!is_prediction("I know the word! It"));
        assert!(!is_prediction("I know the word! It\n is x"));
        assert!(is_prediction("oh. I KNOW the word! It."));
        let is_right = |text: &str| guesses(text).any(|guess| guess.text.starts_with("cat"));
        assert!(is_right("i know the word! it is cat"));
        assert!(is_right("i know the word! it 1234567cat"));
        assert!(!is_right("i know the word! it 12345678cat"));
        assert!(!is_right("i know the word! itcat"));
        assert!(is_right("i know the word! it.. i know the word! it is cat"));
        assert!(is_right("i know the word! it 日本語日本語cat"));
    }
}
