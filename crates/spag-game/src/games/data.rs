//! Data that games draw from: words, or pairs of facts.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::taboo::WordList;
use crate::error::{Error, Result};

/// The most bytes of a file of facts.
const MAX_BYTES: u64 = 1 << 26;

/// What a game draws from, in the order of its file.
#[derive(Clone, Debug)]
pub enum GameData {
    /// Words: Don't Say It, Adversarial Taboo.
    Words(Arc<[String]>),
    /// Pairs of facts: Truth and Deception.
    Facts(Arc<[FactPair]>),
}

/// What kind of data a game needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// The seed decides everything.
    None,
    /// Words, one a line.
    Words,
    /// A JSON list of pairs of facts.
    Facts,
}

/// Two facts of which one is correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactPair {
    /// The facts.
    pub facts: [String; 2],
    /// The index of the correct one.
    pub correct: usize,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `facts` and `correct_fact`")]
struct FactRow {
    facts: FactTexts,
    correct_fact: FactName,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `fact1` and `fact2`")]
struct FactTexts {
    fact1: String,
    fact2: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FactName {
    Fact1,
    Fact2,
}

impl GameData {
    /// Reads the file of a game that takes data of this kind.
    pub(super) fn of_kind(kind: DataKind, game: &str, path: &Path) -> Result<Self> {
        match kind {
            DataKind::None => Err(Error::GameData { game: game.to_owned(), reason: NO_DATA }),
            DataKind::Words => Ok(Self::Words(WordList::read(path)?.words.into())),
            DataKind::Facts => {
                let bytes = spag_io::read_whole(path, MAX_BYTES)?;
                Ok(Self::Facts(parse_facts(&bytes).map_err(|(line, reason)| Error::Line {
                    path: path.to_owned(),
                    line,
                    reason,
                })?))
            }
        }
    }
}

/// Why a game without draws from a file refuses one.
pub(super) const NO_DATA: &str = "it takes no data, its seed decides everything";

/// The error of a list without entries.
pub(super) fn no_words(game: &str) -> Error {
    Error::GameData { game: game.to_owned(), reason: "its list of data has no entries" }
}

/// The facts, or the line of the first error and its reason.
fn parse_facts(bytes: &[u8]) -> Result<Arc<[FactPair]>, (usize, String)> {
    let rows: Vec<FactRow> =
        serde_json::from_slice(bytes).map_err(|error| (error.line().max(1), format!("no list of facts: {error}")))?;
    if rows.is_empty() {
        return Err((1, "the list has no facts".to_owned()));
    }
    let pair = |FactRow { facts: FactTexts { fact1, fact2 }, correct_fact }| FactPair {
        facts: [fact1, fact2],
        correct: matches!(correct_fact, FactName::Fact2).into(),
    };
    Ok(rows.into_iter().map(pair).collect())
}
