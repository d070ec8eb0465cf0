//! English plurals: placeholder of the full rules.

/// The plural of a word.
pub fn pluralize(word: &str) -> String {
    format!("{word}s")
}
