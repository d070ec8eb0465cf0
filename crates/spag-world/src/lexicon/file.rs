//! The format and rules of lexicon files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use spag_game::word_forms;
use spag_io::quote;

use super::index::ClueIndex;
use super::{Entry, Lexicon, World};
use crate::error::{Error, Result};
use crate::voice;

/// A lexicon file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LexiconFile {
    pub(crate) category: Vec<CategoryRow>,
}

/// A category with its words: small-world words with lists of clues, or English nouns.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CategoryRow {
    pub(crate) name: String,
    /// The plural of the name, for nouns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plural: Option<String>,
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub(crate) words: toml::Table,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) nouns: BTreeMap<String, NounRow>,
}

/// A noun of English.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NounRow {
    /// The plural; `None` for a mass noun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plural: Option<String>,
    pub(crate) clues: Vec<String>,
}

/// Maximum clues shared by two words of the small world.
const MAX_SHARED: usize = 2;
/// Minimum clues of a word.
pub(crate) const MIN_CLUES: usize = 3;
/// Maximum clues of a word. All pairs of small-world words are compared, so these limits bound the time.
const MAX_CLUES: usize = 100;
/// Maximum words of the small world.
const MAX_SMALL_WORDS: usize = 5000;
/// Maximum English nouns.
pub(crate) const MAX_WORDS: usize = 20_000;
/// Maximum bytes of a noun's clue.
const MAX_CLUE_BYTES: usize = 200;
/// Maximum bytes of a lexicon file.
pub(super) const MAX_BYTES: u64 = 1 << 24;

/// Parses and checks a lexicon; `path` is for errors.
pub(super) fn parse(path: &Path, text: &str) -> Result<Lexicon> {
    let format = |reason: String| Error::Format { path: path.to_owned(), reason };
    let rule = |reason: String| Error::Rule { path: path.to_owned(), reason };
    let file: LexiconFile = toml::from_str(text).map_err(|error| format(error.to_string()))?;
    let world = if file.category.iter().any(|row| !row.nouns.is_empty()) { World::English } else { World::Small };
    let (mut entries, mut categories, mut category_plurals) = (Vec::new(), Vec::new(), Vec::new());
    for row in file.category {
        if world == World::English && (row.plural.is_none() || !row.words.is_empty()) {
            let name = quote(&row.name);
            return Err(rule(format!(
                "the category `{name}` needs `plural` and `nouns`, as other categories have nouns"
            )));
        }
        for (word, clues) in row.words {
            let clues: Vec<String> = clues
                .try_into()
                .map_err(|e| format(format!("the clues of `{}` are not a list of texts: {e}", quote(&word))))?;
            entries.push(Entry { word, category: row.name.clone(), clues, plural: None });
        }
        let nouns = row.nouns.into_iter();
        entries.extend(nouns.map(|(word, NounRow { plural, clues })| Entry {
            word,
            category: row.name.clone(),
            clues,
            plural,
        }));
        category_plurals.push(row.plural.unwrap_or_else(|| row.name.clone()));
        categories.push(row.name);
    }
    let by_word = entries.iter().enumerate().map(|(i, e)| (e.word.clone(), i)).collect();
    let lower = |(index, entry): (usize, &Entry)| {
        entry.clues.iter().map(move |clue| (index, clue.to_lowercase())).collect::<Vec<_>>()
    };
    let clues = ClueIndex::new(entries.iter().enumerate().flat_map(lower));
    let lexicon = Lexicon { world, entries, by_word, categories, category_plurals, clues };
    check(&lexicon).map_err(rule)?;
    Ok(lexicon)
}

fn check(lexicon: &Lexicon) -> std::result::Result<(), String> {
    let entries = &lexicon.entries;
    if entries.len() != lexicon.by_word.len() {
        return Err("a word is listed twice".into());
    }
    if entries.is_empty() {
        return Err("it has no words".into());
    }
    let most = if lexicon.world == World::Small { MAX_SMALL_WORDS } else { MAX_WORDS };
    if entries.len() > most {
        return Err(format!("it has {} words; {most} are the most", entries.len()));
    }
    if let Some(entry) = entries.iter().find(|entry| entry.clues.len() > MAX_CLUES) {
        return Err(format!("`{}` has {} clues; {MAX_CLUES} are the most", quote(&entry.word), entry.clues.len()));
    }
    for entry in entries {
        if entry.clues.iter().collect::<BTreeSet<_>>().len() < MIN_CLUES.max(entry.clues.len()) {
            return Err(format!("`{}` needs at least {MIN_CLUES} clues, all different", quote(&entry.word)));
        }
    }
    match lexicon.world {
        World::Small => check_small(lexicon),
        World::English => {
            entries.iter().try_for_each(|entry| check_noun(entry, lexicon.category_plural(&entry.category)))
        }
    }
}

/// Whether a text consists of lower-case words separated by single blanks.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && text.chars().all(|c| c.is_ascii_lowercase() || c == ' ')
}

/// Checks the rules of the small world.
fn check_small(lexicon: &Lexicon) -> std::result::Result<(), String> {
    let Lexicon { entries, categories, .. } = lexicon;
    for (index, entry) in entries.iter().enumerate() {
        let Entry { word, category, clues, .. } = entry;
        if !is_plain(word) || word.contains(' ') || !is_plain(category) || !clues.iter().all(|clue| is_plain(clue)) {
            return Err(format!("`{}`: words, categories and clues are lower-case ASCII letters", quote(word)));
        }
        for other in &entries[index + 1..] {
            let shared = clues.iter().filter(|c| other.clues.contains(c)).count();
            if shared > MAX_SHARED {
                return Err(format!("`{word}` and `{}` share {shared} clues; {MAX_SHARED} are the most", other.word));
            }
        }
        let hidden = |text: &str| text.contains(word.as_str());
        if let Some(other) = entries.iter().find(|o| o.word != *word && hidden(&o.word)) {
            return Err(format!("`{word}` is part of the word `{}`", other.word));
        }
        if let Some((clue, _)) = lexicon.clues.clues().find(|(clue, _)| hidden(clue)) {
            return Err(format!("`{word}` is part of the clue `{clue}`"));
        }
        if let Some(category) = categories.iter().find(|c| hidden(c)) {
            return Err(format!("`{word}` is part of the category `{category}`"));
        }
    }
    for (clue, words) in lexicon.clues.clues() {
        let categories: BTreeSet<&str> = words.iter().map(|w| entries[*w].category.as_str()).collect();
        if categories.len() > 1 {
            return Err(format!("the clue `{clue}` has words of several categories: {categories:?}"));
        }
    }
    Ok(())
}

/// Checks the rules of an English noun.
fn check_noun(entry: &Entry, category_plural: &str) -> std::result::Result<(), String> {
    let Entry { word, category, clues, plural } = entry;
    let named = quote(word);
    if !is_plain(word) || word.contains(' ') || !plural.as_deref().is_none_or(is_plain) {
        return Err(format!("`{named}`: nouns and their plurals are lower-case ASCII letters"));
    }
    if !is_plain(category) || !is_plain(category_plural) {
        return Err(format!("the category `{}` and its plural are lower-case ASCII letters", quote(category)));
    }
    if let Some(clue) = clues.iter().find(|clue| !is_clue(clue)) {
        return Err(format!(
            "the clue `{}` of `{named}`: a clue completes \"it …\", of at most {MAX_CLUE_BYTES} ASCII letters, digits, blanks \
             and the signs , - ' / between a lower-case letter and a letter or digit",
            quote(clue)
        ));
    }
    let of_category = said_with(word, [category.as_str(), category_plural].into_iter());
    if let Some(text) = of_category.or_else(|| said_with(word, voice::fixed_texts())) {
        return Err(format!("`{named}` has a form in \"{text}\", which the scripted players say"));
    }
    match said_with(word, clues.iter().map(String::as_str)) {
        Some(clue) => Err(format!("`{named}` has a form in its clue `{clue}`")),
        None => Ok(()),
    }
}

/// Whether a text may be a clue of a noun. `.`, `?` and `!` would end the sentence.
pub(crate) fn is_clue(text: &str) -> bool {
    text.len() <= MAX_CLUE_BYTES
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " ,-'/".contains(c))
}

/// The first text that contains a form of the word, by the rules of the paper's judge.
pub(crate) fn said_with<'a>(word: &str, texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let forms = word_forms(word);
    let mut texts = texts;
    texts.find(|text| {
        let lower = text.to_lowercase();
        forms.iter().any(|form| lower.contains(form.as_str()))
    })
}
