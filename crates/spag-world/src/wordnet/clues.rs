//! Clues of a noun from its definition and its relations: phrases that complete "it …".

use super::nouns::{Form, Nouns};
use super::usage::is_left_out;
use super::{Relation, Synset, WordNet};
use crate::english::indefinite;
use crate::lexicon::{is_clue, said_with};

/// Maximum clues of a word.
const MAX_CLUES: usize = 14;
/// Range of words of a definition.
const DEFINITION_WORDS: std::ops::RangeInclusive<usize> = 2..=18;
/// The kind of the most general synsets, which are uninformative.
const TOPS: u8 = 3;
/// Other uninformative synsets.
const GENERAL: &[&str] = &["instrumentality", "unit", "part", "thing", "conveyance", "way"];
/// First words of definitions that can follow "is" unchanged.
const DETERMINERS: &[&str] = &["a", "an", "the", "any", "one", "someone", "something", "either"];
/// Words that end the first noun phrase of a definition.
const AFTER_PHRASE: &[&str] = &[
    "of",
    "that",
    "which",
    "with",
    "in",
    "for",
    "to",
    "on",
    "used",
    "having",
    "from",
    "by",
    "as",
    "at",
    "who",
    "where",
    "containing",
    "made",
    "between",
    "consisting",
];

/// Builds the clues of nouns.
pub(super) struct Clues<'a> {
    pub(super) wordnet: &'a WordNet,
    pub(super) nouns: &'a Nouns<'a>,
}

impl Clues<'_> {
    /// The clues of a word in its first sense, without those that contain a form of the word.
    pub(super) fn of(&self, word: &str, synset: &Synset, form: &Form) -> Vec<String> {
        let mut clues: Vec<String> = Vec::new();
        clues.extend(self.definition(synset, form));
        clues.extend(self.kinds_above(word, synset));
        let phrase = |noun: &str, of: &Synset| self.nouns.phrase(noun, of);
        let general = |noun: &str, of: &Synset| self.nouns.general(noun, of);
        // Parts are inherited from hypernyms.
        let above: Vec<&Synset> = self.wordnet.targets(synset, Relation::Hypernym).collect();
        for (relation, verb, most) in
            [(Relation::HasPart, "has", 4), (Relation::HasMember, "consists of things such as", 1)]
        {
            let targets =
                std::iter::once(synset).chain(above.iter().copied()).flat_map(|of| self.wordnet.targets(of, relation));
            clues.extend(related(self.wordnet, word, targets, phrase).take(most).map(|noun| format!("{verb} {noun}")));
        }
        for (relation, verb, most) in [(Relation::PartOf, "is part of", 3), (Relation::MemberOf, "belongs to", 2)] {
            let targets = self.wordnet.targets(synset, relation);
            clues.extend(related(self.wordnet, word, targets, phrase).take(most).map(|noun| format!("{verb} {noun}")));
        }
        for (relation, verb) in [(Relation::HasSubstance, "contains"), (Relation::SubstanceOf, "is found in")] {
            let targets = self.wordnet.targets(synset, relation);
            clues.extend(related(self.wordnet, word, targets, general).take(2).map(|noun| format!("{verb} {noun}")));
        }
        let below: Vec<String> =
            related(self.wordnet, word, self.wordnet.targets(synset, Relation::Hyponym), phrase).take(4).collect();
        clues.extend(below.chunks(2).map(|pair| format!("can be {}", pair.join(" or "))));
        let other_names =
            synset.lemmas.iter().map(|(lemma, _)| lemma.as_str()).filter(|lemma| is_name(lemma, word)).take(2);
        clues.extend(other_names.map(|name| match form {
            Form::Count(_) => format!("is also called {}", indefinite(name)),
            Form::Mass => format!("is also called {name}"),
        }));
        clues.retain(|clue| is_clue(clue) && said_with(word, std::iter::once(clue.as_str())).is_none());
        let mut seen = std::collections::HashSet::new();
        clues.retain(|clue| seen.insert(clue.to_lowercase()));
        clues.truncate(MAX_CLUES);
        clues
    }

    /// Names of its hypernyms, nearest first.
    fn kinds_above(&self, word: &str, synset: &Synset) -> Vec<String> {
        let above = self.wordnet.hypernyms(synset).into_iter().filter(|above| above.kind != TOPS).take(6);
        let named = above.filter_map(|above| name_of(self.wordnet, above, word)).filter(|name| !GENERAL.contains(name));
        named.map(|name| format!("is a kind of {name}")).take(5).collect()
    }

    /// The definition after "is", if its grammar is certain: it begins with a determiner, or its first noun phrase ends in
    /// a hypernym of the word, which determines the article.
    fn definition(&self, synset: &Synset, form: &Form) -> Option<String> {
        let text = first_clause(&synset.gloss);
        let words: Vec<&str> = text.split_whitespace().collect();
        if !DEFINITION_WORDS.contains(&words.len()) {
            return None;
        }
        if words.first().is_some_and(|first| DETERMINERS.contains(first)) {
            return Some(format!("is {text}"));
        }
        let end = words.iter().position(|word| AFTER_PHRASE.contains(word)).unwrap_or(words.len());
        let head = words.get(end.checked_sub(1)?)?;
        let above = self.wordnet.hypernyms(synset);
        let is_head = |lemma: &str| lemma == *head || lemma.rsplit(' ').next() == Some(*head);
        let of_head = above.iter().find(|above| above.lemmas.iter().any(|(lemma, _)| is_head(lemma)))?;
        match (self.nouns.form(head, of_head)?, form) {
            (Form::Count(_), Form::Count(_)) => Some(format!("is {}", indefinite(&text))),
            (Form::Mass, Form::Mass) => Some(format!("is {text}")),
            _ => None,
        }
    }
}

/// The names of related synsets, phrased by `phrase`.
fn related<'a>(
    wordnet: &'a WordNet,
    word: &'a str,
    targets: impl Iterator<Item = &'a Synset>,
    phrase: impl Fn(&str, &Synset) -> Option<String>,
) -> impl Iterator<Item = String> {
    targets.filter_map(move |target| phrase(name_of(wordnet, target, word)?, target))
}

/// The first lower-case name of a synset that contains no form of the word and whose most frequent sense is this
/// synset.
fn name_of<'a>(wordnet: &WordNet, synset: &'a Synset, word: &str) -> Option<&'a str> {
    let is_first_sense = |lemma: &str| wordnet.first_sense(lemma).is_some_and(|first| std::ptr::eq(first, synset));
    let mut names = synset.lemmas.iter().map(|(lemma, _)| lemma.as_str());
    names.find(|lemma| is_name(lemma, word) && is_first_sense(lemma)).filter(|_| !is_left_out(wordnet, synset))
}

/// Whether a lemma is a common noun that does not reveal the word.
fn is_name(lemma: &str, word: &str) -> bool {
    let is_common = lemma.starts_with(|c: char| c.is_ascii_lowercase())
        && lemma.chars().all(|c| c.is_ascii_lowercase() || " -".contains(c));
    is_common && said_with(word, std::iter::once(lemma)).is_none()
}

/// The first clause of a gloss, without parenthesized remarks.
fn first_clause(gloss: &str) -> String {
    let mut depth = 0usize;
    let mut text = String::new();
    for c in gloss.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' | '"' | ':' if depth == 0 => break,
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    // Left by a remark before a comma.
    words.join(" ").replace(" ,", ",").trim_end_matches([',', '.', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::first_clause;

    #[test]
    fn remarks_and_examples_are_cut_off() {
        for (gloss, clause) in [
            ("a wet animal; \"it swims\"", "a wet animal"),
            ("(zoology) a wet animal (of the sea), with fur", "a wet animal, with fur"),
            ("a sign (a (b) c; d) of rain.", "a sign of rain"),
            ("\"example alone\"", ""),
            ("a ) b", "a b"),
            ("", ""),
        ] {
            assert_eq!(first_clause(gloss), clause, "{gloss}");
        }
    }
}
