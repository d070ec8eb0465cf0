//! The first word of a target, of which the judge takes the plural: "ices" for "ice cream", "cas" for "can't".
//!
//! Text is split as TextBlob splits it: Penn Treebank tokens (NLTK's word tokenizer), stripped of punctuation.

/// Characters that are always tokens.
const SEPARATE: &str = "«“‘„»”’`\";@#$%&?!*[](){}<>\u{2012}\u{2013}\u{2014}\u{2015}";

/// Character pairs that are always tokens.
const SEPARATE_PAIRS: [&str; 3] = ["''", "--", ".."];

/// Endings split off a token in two passes, if letters remain before them.
const CLITICS: [&[&str]; 2] = [&["'s", "'m", "'d", "'"], &["'ll", "'re", "'ve", "n't"]];

/// Contractions of two words, each with its first part. A blank means the end of the token ("wanna-be" is one word).
const CONTRACTIONS: [(&str, &str); 8] = [
    ("cannot", "can"),
    ("d'ye", "d"),
    ("gimme", "gim"),
    ("gonna", "gon"),
    ("gotta", "got"),
    ("lemme", "lem"),
    ("more'n", "more"),
    ("wanna ", "wan"),
];

/// The first word of a lower-cased text, if any.
pub(super) fn first_word(text: &str) -> Option<String> {
    let plain = |c: char| c.is_alphanumeric() || c == ' ';
    let spaced = if text.chars().all(plain) { text.to_owned() } else { space_out(text) };
    spaced.split_whitespace().find_map(first_of_token)
}

/// `\w` of regular expressions.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text with blanks around tokens that need none.
fn space_out(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let (taken, separate) = match SEPARATE_PAIRS.iter().find(|pair| rest.starts_with(**pair)) {
            Some(pair) => (pair.len(), true),
            None => (c.len_utf8(), is_separate(c, before, &rest[c.len_utf8()..])),
        };
        let (token, after) = rest.split_at(taken);
        let blank = if separate { " " } else { "" };
        spaced.extend([blank, token, blank]);
        before = Some(c);
        rest = after;
    }
    spaced
}

fn is_separate(c: char, before: Option<char>, after: &str) -> bool {
    match c {
        // 3,14 and 12:30 are not split.
        ',' | ':' => !after.starts_with(char::is_numeric),
        // An opening quotation mark, unless it begins a clitic ("'s").
        '\'' => {
            let word = after.split(|c| !is_word_char(c)).next().unwrap_or_default();
            let clitic = ["re", "ve", "ll", "m", "t", "s", "d", "n"].contains(&word);
            !before.is_some_and(is_word_char) && !word.is_empty() && !clitic
        }
        _ => SEPARATE.contains(c),
    }
}

/// The first word in a token without blanks.
fn first_of_token(token: &str) -> Option<String> {
    // A full stop ends a sentence or an abbreviation.
    let token = token.trim_end_matches('.');
    let host = CLITICS.iter().fold(token, |token, clitics| {
        let mut hosts = clitics.iter().filter_map(|clitic| token.strip_suffix(clitic));
        hosts.find(|host| host.chars().next_back().is_some_and(|c| c != '\'')).unwrap_or(token)
    });
    let ended = format!("{host} ");
    let first =
        CONTRACTIONS.iter().filter_map(|(whole, first)| contraction(&ended, whole, first)).min_by_key(|s| s.len());
    let word = first.unwrap_or(host);
    let stripped = strip_punctuation(word);
    if stripped.is_empty() {
        return None;
    }
    Some(if word.starts_with('\'') { word } else { stripped }.to_owned())
}

/// The first word of a token that contains the contraction `whole` between word boundaries: the text before it, or the
/// contraction's `first` part if that text has no letters.
fn contraction<'a>(token: &'a str, whole: &str, first: &str) -> Option<&'a str> {
    let at = token.match_indices(whole).map(|(at, _)| at).find(|at| {
        let before = token[..*at].chars().next_back();
        let after = token[at + whole.len()..].chars().next();
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    })?;
    let first_length = if strip_punctuation(&token[..at]).is_empty() { first.len() } else { 0 };
    token.get(..at + first_length)
}

fn strip_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| c.is_ascii_punctuation())
}

#[cfg(test)]
mod tests {
    use super::first_word;

    #[test]
    fn first_word_equals_textblobs() {
        for (text, word) in [
            ("attorney general", "attorney"),
            ("mother-in-law", "mother-in-law"),
            ("dog's bone", "dog"),
            ("the dogs'", "the"),
            ("can't", "ca"),
            ("we'll", "we"),
            ("o'clock", "o'clock"),
            ("rock'n'roll", "rock'n'roll"),
            ("'tis", "tis"),
            ("'s", "'s"),
            ("cannot", "can"),
            ("gonna", "gon"),
            ("wanna", "wan"),
            ("wanna-be", "wanna-be"),
            ("cannots", "cannots"),
            ("\"quoted\" word", "quoted"),
            ("(paren)", "paren"),
            ("c++", "c"),
            ("at&t", "at"),
            ("3,000 men", "3,000"),
            ("well, well", "well"),
            ("well,now", "well"),
            ("x:y", "x"),
            ("12:30", "12:30"),
            ("u.s.a.", "u.s.a"),
            ("wait...what", "wait"),
            ("a--b", "a"),
            ("naïve", "naïve"),
        ] {
            assert_eq!(first_word(text).as_deref(), Some(word), "{text}");
        }
        for none in ["", "  ", "!?", "'", "--"] {
            assert_eq!(first_word(none), None, "{none}");
        }
    }
}
