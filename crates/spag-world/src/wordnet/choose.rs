//! Selects nouns as target words.

use std::collections::{BTreeMap, HashSet};

use super::clues::Clues;
use super::nouns::{Form, Nouns};
use super::usage::is_left_out;
use super::{Synset, WordNet};
use crate::lexicon::{MAX_WORDS, MIN_CLUES, said_with};
use crate::voice;

/// The source and number of target words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordChoice {
    /// Words sorted by frequency. If `None`, the nouns in WordNet's tagged texts, by their frequency there.
    pub words: Option<Vec<String>>,
    /// Maximum target words, within [`WordChoice::WORDS`].
    pub max_words: usize,
}

impl WordChoice {
    /// Range of the number of target words of a lexicon.
    pub const WORDS: std::ops::RangeInclusive<usize> = 1..=MAX_WORDS;
}

/// Lexicographer files whose nouns are eligible: things that can be seen, touched or pointed at. Each is a
/// category.
pub(super) const CATEGORIES: [(u8, &str, &str); 11] = [
    (5, "animal", "animals"),
    (6, "human creation", "human creations"),
    (8, "body part", "body parts"),
    (13, "food", "foods"),
    (15, "place", "places"),
    (17, "natural object", "natural objects"),
    (18, "person", "people"),
    (19, "natural phenomenon", "natural phenomena"),
    (20, "plant", "plants"),
    (25, "shape", "shapes"),
    (27, "substance", "substances"),
];
/// Range of letters of a word.
const LETTERS: std::ops::RangeInclusive<usize> = 3..=20;
/// The first sense must be this many times as frequent as all others combined.
const DOMINANCE: u32 = 2;
/// Why a word is excluded, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    NoNoun,
    ManySenses,
    OtherKind,
    Usage,
    UnclearForm,
    InSentences,
    FewClues,
    BeyondTheMost,
}

impl LeftOut {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::NoNoun => "no common noun of one word, or the plural of another",
            Self::ManySenses => "without a sense that dominates",
            Self::OtherKind => "of no category",
            Self::Usage => "offensive, a brand, or out of use",
            Self::UnclearForm => "unclear whether counted or not",
            Self::InSentences => "in what the scripted players say",
            Self::FewClues => "with fewer than three clues",
            Self::BeyondTheMost => "beyond the most words",
        }
    }
}

/// A target word with its category, form and clues.
pub(super) struct Chosen {
    pub(super) word: String,
    pub(super) category: usize,
    pub(super) form: Form,
    pub(super) clues: Vec<String>,
}

/// Selects target words, most frequent first, and counts the excluded ones.
pub(super) fn choose(wordnet: &WordNet, choice: &WordChoice) -> (Vec<Chosen>, BTreeMap<LeftOut, usize>) {
    let nouns = Nouns::new(wordnet);
    let chooser = Chooser { wordnet, nouns: &nouns, clues: Clues { wordnet, nouns: &nouns } };
    let ordered = choice.words.clone().unwrap_or_else(|| chooser.tagged_nouns());
    let (mut chosen, mut left_out, mut seen) = (Vec::new(), BTreeMap::new(), HashSet::new());
    for word in ordered.iter().map(|word| word.trim().to_lowercase()) {
        if !seen.insert(word.clone()) {
            continue;
        }
        let result = match chosen.len() < choice.max_words.min(MAX_WORDS) {
            true => chooser.choose(&word),
            false => Err(LeftOut::BeyondTheMost),
        };
        match result {
            Ok(word) => chosen.push(word),
            Err(reason) => *left_out.entry(reason).or_default() += 1,
        }
    }
    (chosen, left_out)
}

struct Chooser<'a> {
    wordnet: &'a WordNet,
    nouns: &'a Nouns<'a>,
    clues: Clues<'a>,
}

impl Chooser<'_> {
    /// The nouns of tagged texts, most frequent first.
    fn tagged_nouns(&self) -> Vec<String> {
        let first_sense = |(lemma, senses): (&String, &Vec<u32>)| {
            let count = self.wordnet.count(lemma, self.wordnet.synset(*senses.first()?)?);
            (count > 0).then(|| (count, lemma.clone()))
        };
        let mut nouns: Vec<(u32, String)> = self.wordnet.index.iter().filter_map(first_sense).collect();
        nouns.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
        nouns.into_iter().map(|(_, lemma)| lemma).collect()
    }

    fn choose(&self, word: &str) -> Result<Chosen, LeftOut> {
        let one_word = LETTERS.contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let synset = self.wordnet.first_sense(word).filter(|_| one_word).ok_or(LeftOut::NoNoun)?;
        if self.nouns.is_plural(word) {
            return Err(LeftOut::NoNoun);
        }
        if !self.dominates(word, synset) {
            return Err(LeftOut::ManySenses);
        }
        let (category, (_, name, plural)) =
            CATEGORIES.iter().enumerate().find(|(_, (kind, ..))| *kind == synset.kind).ok_or(LeftOut::OtherKind)?;
        if is_left_out(self.wordnet, synset) {
            return Err(LeftOut::Usage);
        }
        let form = self.nouns.form(word, synset).ok_or(LeftOut::UnclearForm)?;
        if said_with(word, [*name, *plural].into_iter().chain(voice::fixed_texts())).is_some() {
            return Err(LeftOut::InSentences);
        }
        let clues = self.clues.of(word, synset, &form);
        if clues.len() < MIN_CLUES {
            return Err(LeftOut::FewClues);
        }
        Ok(Chosen { word: word.to_owned(), category, form, clues })
    }

    /// Whether the first sense is the only one, or by far the most frequent.
    fn dominates(&self, word: &str, first: &Synset) -> bool {
        let others = self.wordnet.index.get(word).and_then(|senses| senses.get(1..)).unwrap_or_default();
        let count = |offset: &u32| self.wordnet.synset(*offset).map_or(0, |synset| self.wordnet.count(word, synset));
        let (own, rest) = (self.wordnet.count(word, first), others.iter().map(count).fold(0, u32::saturating_add));
        others.is_empty() || (own > 0 && own >= rest.saturating_mul(DOMINANCE))
    }
}
