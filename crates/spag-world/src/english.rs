//! English noun phrases: articles and forms.

/// Prefixes spelled with a vowel but pronounced with a consonant.
const SPOKEN_WITH_CONSONANT: &[&str] = &[
    "eu", "ewe", "once", "one", "ouija", "ubiqu", "uk", "uni", "ura", "uro", "use", "usa", "usu", "ute", "uti", "uto",
];
/// Exceptions among them, pronounced with a vowel.
const SPOKEN_WITH_VOWEL: &[&str] = &["heir", "honest", "honor", "honour", "hour", "unid", "unim", "unin", "x-"];

/// "a" or "an" before a lower-case word or phrase.
///
/// ```
/// let phrases = ["tiger", "animal", "hour", "unicorn", "uninvited guest", "one-horned beast", "European ox"];
/// let articles = phrases.map(|phrase| spag_world::article(phrase));
/// assert_eq!(articles, ["a", "an", "an", "a", "an", "a", "a"]);
/// ```
pub fn article(word: &str) -> &'static str {
    let word = word.to_lowercase();
    let starts = |with: &[&str]| with.iter().any(|beginning| word.starts_with(beginning));
    let with_vowel = word.starts_with(['a', 'e', 'i', 'o', 'u']) && !starts(SPOKEN_WITH_CONSONANT);
    if with_vowel || starts(SPOKEN_WITH_VOWEL) { "an" } else { "a" }
}

/// A noun with its indefinite article.
pub(crate) fn indefinite(noun: &str) -> String {
    format!("{} {noun}", article(noun))
}
