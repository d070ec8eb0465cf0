//! Words that are left out for their usage: offensive ones, brands, and others.

use super::{Relation, Synset, WordNet};

/// Usages of words that are left out: insults, obscenities, brands, forms without a singular, and words that are no longer used.
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
/// Words in definitions of nouns that are left out.
#[rustfmt::skip]
const GLOSSES: &[&str] = &[
    "offensive", "slur", "derogatory", "disparaging", "vulgar", "obscene", "insulting", "contempt", "sexual", "sex", "genital",
    "genitals", "prostitute", "prostitutes", "prostitution", "whore", "whores", "excrement", "feces", "urine", "anus", "coitus",
    "masturbation", "slave", "slaves", "rape",
];
/// Parts of names, for those that WordNet does not mark.
const NAMES: &[&str] = &["negro", "whore", "gypsy"];

/// Whether the words of a synset are neither target words nor named in clues: by WordNet's marks of usage, as far as it has any, and
/// by their definition.
pub(super) fn is_left_out(wordnet: &WordNet, synset: &Synset) -> bool {
    let mut usages = wordnet.targets(synset, Relation::Usage);
    let gloss = synset.gloss.to_lowercase();
    usages.any(|usage| usage.lemmas.iter().any(|(lemma, _)| USAGES.contains(&lemma.as_str())))
        || gloss.split(|c: char| !c.is_alphanumeric()).any(|word| GLOSSES.contains(&word))
        || synset.lemmas.iter().any(|(lemma, _)| NAMES.iter().any(|part| lemma.to_lowercase().contains(part)))
}
