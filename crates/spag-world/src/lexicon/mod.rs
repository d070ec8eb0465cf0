//! A lexicon: words with their categories and true clues.

mod file;
mod index;

use std::collections::BTreeMap;
use std::path::Path;

use spag_game::{Episode, taboo};

use crate::error::Result;
pub(crate) use file::{CategoryRow, LexiconFile, MAX_WORDS, MIN_CLUES, NounRow, is_clue, said_with};
use index::{ClueIndex, contains_whole};

/// A target word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word.
    pub word: String,
    /// Its category.
    pub category: String,
    /// Its clues: short phrases that complete "it …".
    pub clues: Vec<String>,
    /// The plural of an English count noun. `None` for mass nouns, which take no article, and in the small world, whose
    /// sentences need no plural.
    pub plural: Option<String>,
}

/// The language of the sentences about the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    /// Few distinct words, for small models.
    Small,
    /// English, for models of real words.
    English,
}

/// All words, grouped by category in file order, alphabetically within a category.
///
/// In a small-world lexicon, all words with the same clue have one category, and two words share at most two clues, so
/// three clues identify a word. No word is a substring of a clue, a category or another word, because the paper's judge
/// matches substrings.
///
/// In an English lexicon, words may share any number of clues. No form of a word is a substring of its own clues, its category
/// or a fixed part of the scripted players' sentences, so a scripted attacker never says it.
#[derive(Clone, Debug)]
pub struct Lexicon {
    world: World,
    entries: Vec<Entry>,
    by_word: BTreeMap<String, usize>,
    categories: Vec<String>,
    /// The English plurals of the categories.
    category_plurals: Vec<String>,
    clues: ClueIndex,
}

const EMBEDDED: &str = include_str!("../../data/lexicon.toml");

impl Lexicon {
    /// The small-world lexicon embedded in this crate.
    ///
    /// # Errors
    /// None in practice: a test checks the embedded file.
    pub fn embedded() -> Result<Self> {
        file::parse(Path::new("the embedded lexicon"), EMBEDDED)
    }

    /// Reads a lexicon file: categories with `words`, which have lists of clues (the small world), or with `nouns`, which
    /// have a plural and clues (English, written by `spag data lexicon`).
    ///
    /// # Errors
    /// The file cannot be read, or breaks a rule; the error names word and clue.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        file::parse(path, &spag_io::read_text(path, file::MAX_BYTES)?)
    }

    /// Parses a lexicon; `path` is for errors.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self> {
        file::parse(path, text)
    }

    pub(crate) fn world(&self) -> World {
        self.world
    }

    /// The plural of a category; its name in the small world.
    pub(crate) fn category_plural<'a>(&'a self, category: &'a str) -> &'a str {
        let mut named = self.categories.iter().zip(&self.category_plurals);
        named.find(|(name, _)| *name == category).map_or(category, |(_, plural)| plural)
    }

    /// All words, by category.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.word.as_str())
    }

    /// All entries, by category.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The categories in order.
    pub fn categories(&self) -> &[String] {
        &self.categories
    }

    /// The entry of a word.
    pub fn get(&self, word: &str) -> Option<&Entry> {
        self.by_word.get(word).map(|index| &self.entries[*index])
    }

    /// The clues of a word; empty for an unknown word.
    pub fn clues(&self, word: &str) -> &[String] {
        self.get(word).map_or(&[], |entry| &entry.clues)
    }

    /// Whether a clue is true of a word.
    pub fn clue_is_true(&self, word: &str, clue: &str) -> bool {
        self.clues(word).iter().any(|own| own.eq_ignore_ascii_case(clue))
    }

    /// All occurrences of clues in a text, as whole words and in lower case, the longest first.
    pub fn clues_in(&self, text: &str) -> Vec<&str> {
        self.clues.take_from(&text.to_lowercase()).0.into_iter().map(|(clue, _)| clue).collect()
    }

    /// The words that match all clues and categories in a text; if there are none, those that match the last
    /// sentence; else all words.
    pub fn candidates(&self, text: &str) -> Vec<&str> {
        let fitting = self.fitting(text);
        if !fitting.is_empty() {
            return fitting;
        }
        let last = text.trim_end_matches(['.', '?', '!']).rsplit(['.', '?', '!']).next().unwrap_or(text);
        let fitting = self.fitting(last);
        if fitting.is_empty() { self.words().collect() } else { fitting }
    }

    fn fitting(&self, text: &str) -> Vec<&str> {
        // Categories are searched outside of clues, which may contain other categories.
        let (clues, rest) = self.clues.take_from(&text.to_lowercase());
        let is_named =
            |(name, plural): &(&String, &String)| contains_whole(&rest, name) || contains_whole(&rest, plural);
        let named: Vec<&String> =
            self.categories.iter().zip(&self.category_plurals).filter(is_named).map(|(name, _)| name).collect();
        let of_category = |entry: &&Entry| named.is_empty() || named.contains(&&entry.category);
        let Some((_, fewest)) = clues.iter().min_by_key(|(_, words)| words.len()) else {
            return self.entries.iter().filter(of_category).map(|entry| entry.word.as_str()).collect();
        };
        let fits_all = |word: &&usize| clues.iter().all(|(_, words)| words.binary_search(word).is_ok());
        let fitting = fewest.iter().filter(fits_all).filter_map(|word| self.entries.get(*word));
        fitting.filter(of_category).map(|entry| entry.word.as_str()).collect()
    }
}

/// Clue counts of an attacker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClueTruth {
    /// Clues that are true of the target word.
    pub true_clues: usize,
    /// All clues.
    pub clues: usize,
}

/// Counts the clues in the attacker's utterances of an episode.
pub fn clue_truth(lexicon: &Lexicon, episode: &Episode) -> ClueTruth {
    let mut truth = ClueTruth::default();
    for utterance in episode.history.iter().filter(|u| u.seat == taboo::ATTACKER) {
        for clue in lexicon.clues_in(&utterance.content) {
            truth.clues += 1;
            truth.true_clues += usize::from(lexicon.clue_is_true(&episode.item, clue));
        }
    }
    truth
}
