//! Excludes words by usage: offensive words, brands, and others.

use super::{Relation, Synset, WordNet};

/// Usages of excluded words: insults, obscenities, brands, forms without a singular, and obsolete words.
const USAGES: &[&str] = &[
    "ethnic slur",
    "disparagement",
    "obscenity",
    "slang",
    "derogation",
    "trade name",
    "trademark",
    "plural",
    "archaism",
    "combining form",
];
/// Words in definitions that exclude a noun.
#[rustfmt::skip]
const GLOSSES: &[&str] = &[
    "offensive", "slur", "derogatory", "disparaging", "vulgar", "obscene", "insulting", "contempt", "sexual", "sex", "genital",
    "genitals", "prostitute", "prostitutes", "prostitution", "whore", "whores", "excrement", "feces", "urine", "anus", "coitus",
    "masturbation", "slave", "slaves", "rape",
];
/// Parts of names to exclude that WordNet does not mark.
const NAMES: &[&str] = &["negro", "whore", "gypsy"];

/// Whether the words of a synset are excluded from target words and clues, by WordNet's usage marks where available, and by their
/// definition.
pub(super) fn is_left_out(wordnet: &WordNet, synset: &Synset) -> bool {
    let mut usages = wordnet.targets(synset, Relation::Usage);
    let gloss = synset.gloss.to_lowercase();
    usages.any(|usage| usage.lemmas.iter().any(|(lemma, _)| USAGES.contains(&lemma.as_str())))
        || gloss.split(|c: char| !c.is_alphanumeric()).any(|word| GLOSSES.contains(&word))
        || synset.lemmas.iter().any(|(lemma, _)| NAMES.iter().any(|part| lemma.to_lowercase().contains(part)))
}
