//! The forms of a target word that count as the word.

use crate::plural::pluralize;

/// Quotation marks that a form may stand in.
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The first word of a text for the plural: letters, digits, hyphens and apostrophes, without punctuation around them.
fn first_word(text: &str) -> &str {
    let outer = |c: char| !c.is_alphanumeric();
    text.split_whitespace().map(|word| word.trim_matches(outer)).find(|word| !word.is_empty()).unwrap_or("")
}

/// The word, +"ing", +"ed" and its plural, all in lower case, each plain and inside "…", '…' and `…`.
///
/// The plural is that of the word's first word, as in the reference.
pub fn word_forms(word: &str) -> Vec<String> {
    let plain = plain_forms(word);
    let quoted = plain.iter().flat_map(|form| QUOTES.map(|q| format!("{q}{form}{q}"))).collect::<Vec<_>>();
    plain.into_iter().chain(quoted).collect()
}

fn plain_forms(word: &str) -> Vec<String> {
    let word = word.to_lowercase();
    let plural = pluralize(first_word(&word));
    let mut forms = vec![format!("{word}ing"), format!("{word}ed"), word];
    forms.rotate_right(1);
    if !plural.is_empty() {
        forms.push(plural);
    }
    forms
}
