//! Predictions: "I know the word! It is …", the regular expression `i know the word! it.{1,8}` on lower-cased text.

/// What every prediction begins with.
const STEM: &str = "i know the word! it";
/// Characters that may stand between the stem and the word.
const MOST: usize = 8;

/// The places after each stem's 1 to 8 following characters (none of them a newline), stem by stem.
fn places(lower: &str) -> impl Iterator<Item = &str> {
    lower.match_indices(STEM).flat_map(move |(at, _)| {
        let after = &lower[at + STEM.len()..];
        let skipped = after.char_indices().take(MOST).take_while(|(_, c)| *c != '\n');
        skipped.map(move |(offset, c)| &after[offset + c.len_utf8()..])
    })
}

/// Whether a text, in any case, holds a prediction.
pub fn is_prediction(text: &str) -> bool {
    predicts(&text.to_lowercase())
}

/// Whether a lower-cased text holds a prediction.
pub(crate) fn predicts(lower: &str) -> bool {
    places(lower).next().is_some()
}

/// Whether some prediction in a lower-cased text is followed at once by what `matches` accepts.
pub(crate) fn predicts_right(lower: &str, matches: impl Fn(&str) -> bool) -> bool {
    places(lower).any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_eight_characters_but_no_newline() {
        assert!(!is_prediction("I know the word! It"));
        assert!(!is_prediction("I know the word! It\n is x"));
        assert!(is_prediction("oh. I KNOW the word! It."));
        let right = |text: &str| predicts_right(text, |rest| rest.starts_with("cat"));
        assert!(right("i know the word! it is cat"));
        assert!(right("i know the word! it 1234567cat"));
        assert!(!right("i know the word! it 12345678cat"));
        assert!(!right("i know the word! itcat"));
        assert!(right("i know the word! it.. i know the word! it is cat"));
        assert!(right("i know the word! it 日本語日本語cat"));
    }
}
