//! Predictions: "I know the word! It is …", the regular expression `i know the word! it.{1,8}` on lower-cased text.

/// What every prediction begins with, up to a mark that texts seldom have and are searched for.
const STEM: &str = "i know the word!";
/// What comes next.
const STEM_END: &str = " it";
/// Characters that may stand between the stem and the word.
const MOST: usize = 8;

/// A place where a prediction's word may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess<'a> {
    /// The character before.
    pub(super) before: char,
    /// The text from there on.
    pub(super) text: &'a str,
}

/// Every place where a word may be predicted in a lower-cased text: behind each stem and 1 to 8 further characters, none
/// of them a newline. A text that has no such place predicts nothing.
pub(super) fn guesses(lower: &str) -> impl Iterator<Item = Guess<'_>> {
    let stems = memchr::memchr_iter(b'!', lower.as_bytes()).filter_map(|mark| {
        let (until, after) = lower.split_at_checked(mark + 1)?;
        after.strip_prefix(STEM_END).filter(|_| until.ends_with(STEM))
    });
    stems.flat_map(|after| {
        let skipped = after.char_indices().take(MOST).take_while(|(_, c)| *c != '\n');
        skipped.map(move |(offset, before)| Guess { before, text: &after[offset + before.len_utf8()..] })
    })
}

/// Whether a text, in any case, holds a prediction.
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
    fn one_to_eight_characters_but_no_newline() {
        assert!(!is_prediction("I know the word! It"));
        assert!(!is_prediction("I know the word! It\n is x"));
        assert!(is_prediction("oh. I KNOW the word! It."));
        let right = |text: &str| guesses(text).any(|guess| guess.text.starts_with("cat"));
        assert!(right("i know the word! it is cat"));
        assert!(right("i know the word! it 1234567cat"));
        assert!(!right("i know the word! it 12345678cat"));
        assert!(!right("i know the word! itcat"));
        assert!(right("i know the word! it.. i know the word! it is cat"));
        assert!(right("i know the word! it 日本語日本語cat"));
    }
}
