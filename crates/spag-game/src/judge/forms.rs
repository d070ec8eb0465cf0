//! The forms of a target word that count as the word.

use super::first_word::first_word;
use crate::plural::pluralize;

/// Quotation marks that a form may stand in.
pub(super) const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The word, +"ing", +"ed" and its plural, all in lower case, each plain and inside "…", '…' and `…`.
///
/// The plural is that of the word's first word, as in the reference: "ices" for "ice cream".
///
/// ```
/// let forms = spag_game::word_forms("Lady");
/// assert_eq!(forms[..4], ["lady", "ladying", "ladyed", "ladies"]);
/// assert!(forms.contains(&"`ladies`".to_owned()));
/// ```
pub fn word_forms(word: &str) -> Vec<String> {
    let plain = plain_forms(word);
    let quoted: Vec<String> = plain.iter().flat_map(|form| QUOTES.map(|q| format!("{q}{form}{q}"))).collect();
    plain.into_iter().chain(quoted).collect()
}

/// The forms without quotation marks; the first is the word itself. A target without any letter has no plural.
pub(super) fn plain_forms(word: &str) -> Vec<String> {
    let word = word.to_lowercase();
    let plural = first_word(&word).map(|first| pluralize(&first));
    let (ing, ed) = (format!("{word}ing"), format!("{word}ed"));
    [word, ing, ed].into_iter().chain(plural).collect()
}
