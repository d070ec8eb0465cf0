//! The lexicon as a file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::WordNet;
use super::choose::{CATEGORIES, WordChoice, choose};
use super::nouns::Form;
use crate::error::{Error, Result};
use crate::lexicon::{CategoryRow, Lexicon, LexiconFile, NounRow};

/// The beginning of a lexicon file, before the licence of WordNet.
const HEADER: &str = "\
# Nouns with clues that complete \"it …\", made by `spag data lexicon` from WordNet. They are extracts of WordNet, whose
# licence is:
#
";

/// What a lexicon was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LexiconReport {
    /// The target words of each category.
    pub categories: Vec<(&'static str, usize)>,
    /// All clues.
    pub clues: usize,
    /// Why other words are left out, and how many.
    pub left_out: Vec<(&'static str, usize)>,
}

impl LexiconReport {
    /// All target words.
    pub fn words(&self) -> usize {
        self.categories.iter().map(|(_, words)| words).sum()
    }
}

impl fmt::Display for LexiconReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} words with {} clues", self.words(), self.clues)?;
        let mut rows = self.categories.iter().filter(|(_, words)| *words > 0);
        rows.try_for_each(|(name, words)| writeln!(f, "  {name:<56}{words:>7}"))?;
        writeln!(f, "left out")?;
        self.left_out.iter().try_for_each(|(reason, words)| writeln!(f, "  {reason:<56}{words:>7}"))
    }
}

/// Writes the lexicon of the chosen words, which [`Lexicon::load`] reads, with WordNet's licence.
///
/// # Errors
/// No word is left, or the file cannot be written.
pub fn write_lexicon(wordnet: &WordNet, choice: &WordChoice, path: impl AsRef<Path>) -> Result<LexiconReport> {
    let path = path.as_ref();
    let (chosen, left_out) = choose(wordnet, choice);
    let mut rows: Vec<CategoryRow> = CATEGORIES
        .iter()
        .map(|(_, name, plural)| CategoryRow {
            name: (*name).to_owned(),
            plural: Some((*plural).to_owned()),
            words: toml::Table::new(),
            nouns: BTreeMap::new(),
        })
        .collect();
    let mut report = LexiconReport {
        left_out: left_out.into_iter().map(|(reason, words)| (reason.describe(), words)).collect(),
        ..LexiconReport::default()
    };
    if chosen.is_empty() {
        return Err(Error::NoWords { path: path.to_owned(), left_out: report.left_out });
    }
    for word in chosen {
        report.clues += word.clues.len();
        let plural = match word.form {
            Form::Count(plural) => Some(plural),
            Form::Mass => None,
        };
        if let Some(row) = rows.get_mut(word.category) {
            row.nouns.insert(word.word, NounRow { plural, clues: word.clues });
        }
    }
    report.categories = CATEGORIES.iter().zip(&rows).map(|((_, name, _), row)| (*name, row.nouns.len())).collect();
    rows.retain(|row| !row.nouns.is_empty());
    let rule = |reason: String| Error::Rule { path: path.to_owned(), reason };
    let table = toml::to_string_pretty(&LexiconFile { category: rows }).map_err(|error| rule(error.to_string()))?;
    let licence: String = wordnet.licence.iter().map(|line| format!("# {line}\n")).collect();
    let text = format!("{HEADER}{licence}\n{table}");
    // What is written must be readable.
    Lexicon::parse(path, &text)?;
    spag_io::write_atomically(path, text)?;
    Ok(report)
}
