//! English plurals, equal to those of the Python library TextBlob: the rules of Conway, "An Algorithmic Approach to English
//! Pluralization" (1998), with TextBlob's exception lists and order of rules.
//!
//! Every word is taken for a singular noun: "became" gives "becames", "bards" gives "bardss".

mod endings;
mod words;

/// Words after the noun of a compound ("mothers-in-law", "men at arms").
const PREPOSITIONS: [&str; 40] = [
    "about", "above", "across", "after", "among", "around", "at", "athwart", "before", "behind", "below", "beneath",
    "beside", "besides", "between", "betwixt", "beyond", "but", "by", "during", "except", "for", "from", "in", "into",
    "near", "of", "off", "on", "onto", "out", "over", "since", "till", "to", "under", "until", "unto", "upon", "with",
];

/// Ranks before "General" in which "General" is the noun ("Major Generals").
#[rustfmt::skip]
const RANKS: [&str; 10] = [
    "Adjutant", "Brigadier", "Lieutenant", "Major", "Quartermaster",
    "adjutant", "brigadier", "lieutenant", "major", "quartermaster",
];

/// The plural of an English word or compound.
///
/// ```
/// use spag_game::pluralize;
/// assert_eq!(pluralize("criterion"), "criteria");
/// assert_eq!(pluralize("mother-in-law"), "mothers-in-law");
/// assert_eq!(pluralize("dog's"), "dogs'");
/// assert_eq!(pluralize("lady"), "ladies");
/// assert_eq!(pluralize("Mary"), "Marys");
/// ```
pub fn pluralize(word: &str) -> String {
    if word.ends_with('\'') || word.ends_with("'s") {
        return possessive(word.trim_end_matches(['\'', 's']));
    }
    let mut parts = word.split(['-', ' ']);
    match (parts.next(), parts.next(), parts.next_back()) {
        (Some(first), Some(second), last) => {
            let inflected = if first_is_noun(first, second) { first } else { last.unwrap_or(second) };
            // Every occurrence, as TextBlob does: "bye-bye" gives "byes-byes".
            word.replace(inflected, &pluralize(inflected))
        }
        _ => simple(word),
    }
}

/// The plural of a possessive: "dogs'", "men's".
fn possessive(owner: &str) -> String {
    let owners = pluralize(owner);
    let ending = if owners.ends_with('s') { "'" } else { "'s" };
    owners + ending
}

/// Whether the first part of a compound takes the plural, given its first two parts.
fn first_is_noun(first: &str, second: &str) -> bool {
    second == "general" || (second == "General" && !RANKS.contains(&first)) || PREPOSITIONS.contains(&second)
}

/// The plural of a word that is not a compound.
fn simple(word: &str) -> String {
    words::plural(word).or_else(|| endings::plural(word)).unwrap_or_else(|| format!("{word}s"))
}
