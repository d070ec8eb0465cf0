//! Classifies nouns as count or mass nouns and forms plurals, from their usage in WordNet's definitions.

use std::collections::{HashMap, HashSet};

use super::{Synset, WordNet};
use crate::english::indefinite;

/// The grammatical form of a noun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// "a tiger", with its plural.
    Count(String),
    /// "milk", without an article.
    Mass,
}

/// Occurrences of a word in definitions.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// In any position.
    all: u32,
    /// At the end of a noun phrase after "a" or "an".
    counted: u32,
    /// As a noun phrase of its own.
    bare: u32,
}

/// Words that end a noun phrase.
#[rustfmt::skip]
const AFTER: &[&str] = &[
    "of", "that", "which", "with", "in", "for", "to", "on", "and", "or", "used", "having", "from", "by", "as", "at", "is", "are",
    "was", "were", "who", "where", "when", "containing", "made", "but", "than", "into", "over", "under", "through", "during",
    "between", "among", "about", "whose", "if", "not", "without", "near", "against", "after", "before", "usually",
];
/// Words that may be followed by a noun without an article.
#[rustfmt::skip]
const BEFORE: &[&str] = &[
    "of", "with", "from", "for", "in", "into", "by", "on", "containing", "using", "and", "or", "like", "as", "to", "without",
    "between", "than", "through", "contains",
];
/// Lexicographer files of nouns that are count nouns by default: animals, artifacts, body parts, places, natural objects,
/// persons, plants, shapes.
const COUNTED: [u8; 8] = [5, 6, 8, 15, 17, 18, 20, 25];
/// Lexicographer files of nouns that are mass nouns by default: food, phenomena, substances.
const MEASURED: [u8; 3] = [13, 19, 27];
/// Minimum letters of a noun with a regular plural: "gas" is not a plural of "ga".
const MIN_STEM: usize = 3;
/// The lexicographer file of persons, which are always count nouns.
const PERSON: u8 = 18;

/// Usage of words in all definitions.
pub(super) struct Nouns<'a> {
    wordnet: &'a WordNet,
    seen: HashMap<String, Seen>,
    /// Irregular plurals that are not also singulars.
    irregular: HashSet<&'a str>,
}

impl<'a> Nouns<'a> {
    pub(super) fn new(wordnet: &'a WordNet) -> Self {
        let mut seen: HashMap<String, Seen> = HashMap::new();
        for synset in wordnet.synsets.values() {
            let gloss = synset.gloss.to_lowercase();
            let words: Vec<&str> = words_and_signs(&gloss).collect();
            let is_end = |next: Option<&&str>| {
                next.is_none_or(|next| !next.starts_with(char::is_alphanumeric) || AFTER.contains(next))
            };
            let mut before = "";
            for (at, word) in words.iter().enumerate() {
                if word.starts_with(|c: char| c.is_ascii_lowercase()) {
                    let seen = seen.entry((*word).to_owned()).or_default();
                    let ends = is_end(words.get(at + 1));
                    seen.all += 1;
                    seen.counted += u32::from(ends && matches!(before, "a" | "an"));
                    seen.bare += u32::from(ends && BEFORE.contains(&before));
                }
                before = *word;
            }
        }
        let irregular =
            wordnet.irregular.iter().flat_map(|(singular, plurals)| plurals.iter().filter(move |own| *own != singular));
        Self { wordnet, seen, irregular: irregular.map(String::as_str).collect() }
    }

    /// The form of a noun with this meaning; `None` if definitions do not determine it. The last word of a compound
    /// decides.
    pub(super) fn form(&self, noun: &str, synset: &Synset) -> Option<Form> {
        let head = noun.rsplit(' ').next().unwrap_or(noun);
        let plural = self.plural(head);
        let seen_counted = self.seen.get(head).map_or(0, |seen| seen.counted);
        let ends_as_plural = head.ends_with('s') && !["ss", "us", "is"].iter().any(|ending| head.ends_with(ending));
        if self.is_plural(head) || (ends_as_plural && seen_counted == 0) {
            return None;
        }
        let Seen { counted, bare, .. } = self.seen.get(head).copied().unwrap_or_default();
        let counted = counted + self.all(&plural);
        let count = || {
            let rest = noun.strip_suffix(head).unwrap_or_default();
            Some(Form::Count(format!("{rest}{plural}")))
        };
        let (is_counted, is_measured) = (COUNTED.contains(&synset.kind), MEASURED.contains(&synset.kind));
        if synset.kind == PERSON || (counted >= 2 && counted >= 3 * bare) || (is_counted && counted >= bare) {
            return count();
        }
        let enough = if is_measured {
            bare >= 1 && bare >= 2 * counted
        } else {
            self.is_material(synset) && bare >= 3 * counted
        };
        enough.then_some(Form::Mass)
    }

    /// A noun with its article, if it takes one.
    pub(super) fn phrase(&self, noun: &str, synset: &Synset) -> Option<String> {
        match self.form(noun, synset)? {
            Form::Count(_) => Some(indefinite(noun)),
            Form::Mass => Some(noun.to_owned()),
        }
    }

    /// A noun in generic use: in the plural, or without an article.
    pub(super) fn general(&self, noun: &str, synset: &Synset) -> Option<String> {
        match self.form(noun, synset)? {
            Form::Count(plural) => Some(plural),
            Form::Mass => Some(noun.to_owned()),
        }
    }

    /// The plural of a word: the regular or irregular one that definitions use most; the regular one if they use none.
    fn plural(&self, word: &str) -> String {
        let regular = regular_plural(word);
        let mut others: Vec<&str> =
            self.wordnet.irregular.get(word).into_iter().flatten().map(String::as_str).collect();
        let in_es = format!("{word}es");
        if word.ends_with('o') {
            others.push(&in_es);
        }
        let mut best = (self.all(&regular), regular.as_str());
        for other in others.into_iter().filter(|other| other.bytes().all(|b| b.is_ascii_lowercase())) {
            let times = self.all(other);
            if times > best.0 {
                best = (times, other);
            }
        }
        best.1.to_owned()
    }

    /// Whether a word is the plural of another noun.
    pub(super) fn is_plural(&self, word: &str) -> bool {
        let is_noun = |stem: &str| stem.len() >= MIN_STEM && self.wordnet.first_sense(stem).is_some();
        let regular = ["s", "es"].iter().filter_map(|ending| word.strip_suffix(ending)).any(is_noun);
        let of_y = word.strip_suffix("ies").is_some_and(|stem| is_noun(&format!("{stem}y")));
        (regular && !word.ends_with("ss")) || of_y || self.irregular.contains(word)
    }

    fn all(&self, word: &str) -> u32 {
        self.seen.get(word).map_or(0, |seen| seen.all)
    }

    /// Whether it is a kind of material, cloth or equipment, which may take no article.
    fn is_material(&self, synset: &Synset) -> bool {
        const MATERIALS: &[&str] =
            &["substance", "material", "fabric", "clothing", "equipment", "body substance", "furnishing"];
        let hypernyms = self.wordnet.hypernyms(synset);
        hypernyms.iter().any(|above| above.lemmas.iter().any(|(lemma, _)| MATERIALS.contains(&lemma.as_str())))
    }
}

fn regular_plural(word: &str) -> String {
    let consonant_y = word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "z", "ch", "sh"].iter().any(|ending| word.ends_with(ending)) => format!("{word}es"),
        None => format!("{word}s"),
    }
}

/// Splits a text into words, with hyphens and apostrophes, and single other characters.
fn words_and_signs(text: &str) -> impl Iterator<Item = &str> {
    let in_word = |c: char| c.is_alphanumeric() || c == '-' || c == '\'';
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let length = match rest.find(|c: char| !in_word(c)) {
            Some(0) => rest.chars().next().map_or(0, char::len_utf8),
            Some(length) => length,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(length);
        rest = after.trim_start();
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_into_words_and_signs() {
        let words: Vec<&str> = words_and_signs("a one-eyed cat's  toy, (é)").collect();
        assert_eq!(words, ["a", "one-eyed", "cat's", "toy", ",", "(", "é", ")"]);
        assert_eq!(words_and_signs(" ").count(), 0);
    }

    #[test]
    fn plurals_are_regular() {
        for (word, plural) in
            [("cat", "cats"), ("fox", "foxes"), ("lady", "ladies"), ("day", "days"), ("church", "churches")]
        {
            assert_eq!(regular_plural(word), plural);
        }
    }
}
