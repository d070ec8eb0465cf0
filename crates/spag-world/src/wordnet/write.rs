//! Writes a lexicon file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::WordNet;
use super::choose::{CATEGORIES, WordChoice, choose};
use super::nouns::Form;
use crate::error::{Error, Result};
use crate::lexicon::{CategoryRow, Lexicon, LexiconFile, NounRow};

/// The beginning of a lexicon file, before WordNet's licence.
const HEADER: &str = "\
# Nouns with clues that complete \"it …\", made by `spag data lexicon` from WordNet. They are extracts of WordNet, whose
# licence is:
#
";

/// Statistics of a written lexicon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LexiconReport {
    /// The target words of each category.
    pub categories: Vec<(&'static str, usize)>,
    /// Number of clues.
    pub clues: usize,
    /// Reasons for excluding words, with counts.
    pub left_out: Vec<(&'static str, usize)>,
}

impl LexiconReport {
    /// Number of target words.
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

/// Writes a lexicon of the chosen words, with WordNet's licence, for [`Lexicon::load`].
///
/// # Errors
/// No words remain, or the file cannot be written.
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
    // Checks that the written file can be read.
    Lexicon::parse(path, &text)?;
    spag_io::write_atomically(path, text)?;
    Ok(report)
}
