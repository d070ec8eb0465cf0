//! The words of the world with their categories and true clues.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use spag_game::{Episode, Role};
use spag_io::quote;

use crate::error::{Error, Result};

/// A target word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word.
    pub word: String,
    /// Its category.
    pub category: String,
    /// Its clues: short phrases that complete "it …".
    pub clues: Vec<String>,
}

/// All words, in the order of the file's categories, alphabetically within one.
///
/// All words of a clue have one category, and two words share at most two clues, so three clues identify a word. No word
/// is a substring of a clue, a category or another word, because the paper's judge matches substrings.
#[derive(Clone, Debug)]
pub struct Lexicon {
    entries: Vec<Entry>,
    by_word: BTreeMap<String, usize>,
    categories: Vec<String>,
    /// Every clue with the indices of its words, the longest first: a short one may be part of a long one.
    clues: Vec<(String, Vec<usize>)>,
}

/// A category in the file: the words with their clues.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryRow {
    name: String,
    words: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    category: Vec<CategoryRow>,
}

const EMBEDDED: &str = include_str!("../data/lexicon.toml");

/// The most clues that two words may share.
const MAX_SHARED: usize = 2;
/// The fewest clues of a word.
const MIN_CLUES: usize = 3;
/// The most clues of a word. All words are compared with each other, so these limits bound the time.
const MAX_CLUES: usize = 100;
/// The most words.
const MAX_WORDS: usize = 5000;
/// The most bytes of a lexicon file.
const MAX_BYTES: u64 = 1 << 22;

impl Lexicon {
    /// The lexicon that comes with this crate.
    ///
    /// # Errors
    /// None in practice: a test checks the embedded file.
    pub fn embedded() -> Result<Self> {
        Self::parse(Path::new("the embedded lexicon"), EMBEDDED)
    }

    /// Reads a lexicon file.
    ///
    /// # Errors
    /// The file cannot be read, or breaks a rule; the error names word and clue.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::parse(path, &spag_io::read_text(path, MAX_BYTES)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let format = |reason: String| Error::Format { path: path.to_owned(), reason };
        let file: LexiconFile = toml::from_str(text).map_err(|e| format(e.to_string()))?;
        let mut entries = Vec::new();
        let mut categories = Vec::new();
        for row in file.category {
            for (word, clues) in row.words {
                let clues: Vec<String> = clues
                    .try_into()
                    .map_err(|e| format(format!("the clues of `{}` are not a list of texts: {e}", quote(&word))))?;
                entries.push(Entry { word, category: row.name.clone(), clues });
            }
            categories.push(row.name);
        }
        let by_word = entries.iter().enumerate().map(|(i, e)| (e.word.clone(), i)).collect();
        let mut clues: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            for clue in &entry.clues {
                clues.entry(clue).or_default().push(index);
            }
        }
        let mut clues: Vec<(String, Vec<usize>)> = clues.into_iter().map(|(c, w)| (c.to_owned(), w)).collect();
        clues.sort_by_key(|(clue, _)| std::cmp::Reverse(clue.len()));
        let lexicon = Self { entries, by_word, categories, clues };
        lexicon.check().map_err(|reason| Error::Rule { path: path.to_owned(), reason })?;
        Ok(lexicon)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.entries.len() != self.by_word.len() {
            return Err("a word is listed twice".into());
        }
        if self.entries.is_empty() {
            return Err("it has no words".into());
        }
        if self.entries.len() > MAX_WORDS {
            return Err(format!("it has {} words; {MAX_WORDS} are the most", self.entries.len()));
        }
        if let Some(entry) = self.entries.iter().find(|entry| entry.clues.len() > MAX_CLUES) {
            return Err(format!("`{}` has {} clues; {MAX_CLUES} are the most", quote(&entry.word), entry.clues.len()));
        }
        for (index, entry) in self.entries.iter().enumerate() {
            let Entry { word, category, clues } = entry;
            let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == ' ');
            if !plain(word) || word.contains(' ') || !plain(category) || !clues.iter().all(|c| plain(c)) {
                return Err(format!("`{}`: words, categories and clues are lower-case ASCII letters", quote(word)));
            }
            if clues.iter().collect::<BTreeSet<_>>().len() < MIN_CLUES.max(clues.len()) {
                return Err(format!("`{word}` needs at least {MIN_CLUES} clues, all different"));
            }
            for other in &self.entries[index + 1..] {
                let shared = clues.iter().filter(|c| other.clues.contains(c)).count();
                if shared > MAX_SHARED {
                    return Err(format!(
                        "`{word}` and `{}` share {shared} clues; {MAX_SHARED} are the most",
                        other.word
                    ));
                }
            }
            let hidden = |text: &str| text.contains(word.as_str());
            if let Some(other) = self.entries.iter().find(|o| o.word != *word && hidden(&o.word)) {
                return Err(format!("`{word}` is part of the word `{}`", other.word));
            }
            if let Some((clue, _)) = self.clues.iter().find(|(clue, _)| hidden(clue)) {
                return Err(format!("`{word}` is part of the clue `{clue}`"));
            }
            if let Some(category) = self.categories.iter().find(|c| hidden(c)) {
                return Err(format!("`{word}` is part of the category `{category}`"));
            }
        }
        for (clue, words) in &self.clues {
            let categories: BTreeSet<&str> = words.iter().map(|w| self.entries[*w].category.as_str()).collect();
            if categories.len() > 1 {
                return Err(format!("the clue `{clue}` has words of several categories: {categories:?}"));
            }
        }
        Ok(())
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
        self.clues(word).iter().any(|c| c == clue)
    }

    /// All occurrences of clues in a text, as whole words.
    pub fn clues_in(&self, text: &str) -> Vec<&str> {
        let mut lower = text.to_lowercase();
        let mut found = Vec::new();
        for (clue, _) in &self.clues {
            while let Some(at) = find_whole(&lower, clue) {
                found.push(clue.as_str());
                // Blanked out, so that a shorter clue inside a longer one is not counted.
                lower.replace_range(at..at + clue.len(), &" ".repeat(clue.len()));
            }
        }
        found
    }

    /// The words that fit all clues and categories in a text; if there are none, those that fit the last sentence; if
    /// there are none, all words.
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
        let lower = text.to_lowercase();
        let named: Vec<&String> = self.categories.iter().filter(|c| find_whole(&lower, c).is_some()).collect();
        let clues = self.clues_in(text);
        let fits = |entry: &&Entry| {
            (named.is_empty() || named.contains(&&entry.category))
                && clues.iter().all(|clue| entry.clues.iter().any(|c| c == clue))
        };
        self.entries.iter().filter(fits).map(|e| e.word.as_str()).collect()
    }
}

/// The position of `needle` in `text` as whole words.
fn find_whole(text: &str, needle: &str) -> Option<usize> {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(needle)
        .map(|(at, _)| at)
        .find(|at| !letter(text[..*at].chars().next_back()) && !letter(text[at + needle.len()..].chars().next()))
}

/// Numbers of clues given by an attacker.
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
    for utterance in episode.history.iter().filter(|u| u.role == Role::Attacker) {
        for clue in lexicon.clues_in(&utterance.content) {
            truth.clues += 1;
            truth.true_clues += usize::from(lexicon.clue_is_true(&episode.target_word, clue));
        }
    }
    truth
}
