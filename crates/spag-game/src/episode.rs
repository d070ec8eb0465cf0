//! An episode: the record of one game, in the reference's file format.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_io::{Row, RowReader};

use crate::error::{Error, Result};
use crate::generation::Generation;

/// A player's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Knows the target word and wants the defender to say it.
    Attacker,
    /// Wants to guess the word.
    Defender,
}

impl Role {
    /// The other role.
    pub fn opponent(self) -> Self {
        match self {
            Self::Attacker => Self::Defender,
            Self::Defender => Self::Attacker,
        }
    }

    /// The name in files and prompts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attacker => "attacker",
            Self::Defender => "defender",
        }
    }

    /// The role of the utterance at a 0-based index of a history.
    pub fn at(index: usize) -> Self {
        if index.is_multiple_of(2) { Self::Attacker } else { Self::Defender }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One utterance of a game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utterance {
    /// The speaker.
    pub role: Role,
    /// The text, unchanged.
    pub content: String,
    /// The tokens that a model generated, if they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// All other keys of the object, kept on a round trip.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Utterance {
    /// An utterance without other keys.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), generation: None, extra: Map::new() }
    }
}

/// One game. Made by [`play_games`](crate::play_games) or read from a file; read by judges and credit assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The utterances in order, the attacker's first.
    pub history: Vec<Utterance>,
    /// The word that only the attacker knows.
    pub target_word: String,
    /// Turns after which an undecided game is tied. A turn is one utterance of each player.
    #[serde(default = "default_turns")]
    pub max_turns: usize,
    /// All other keys of the object, kept on a round trip.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The paper's number of turns.
fn default_turns() -> usize {
    5
}

impl Episode {
    /// A game without utterances.
    pub fn new(target_word: impl Into<String>, max_turns: usize) -> Self {
        Self { history: Vec::new(), target_word: target_word.into(), max_turns, extra: Map::new() }
    }

    /// The episode without its other keys, borrowed.
    pub fn view(&self) -> EpisodeView<'_> {
        EpisodeView {
            history: self.history.iter().map(UtteranceView::from).collect(),
            target_word: Cow::Borrowed(&self.target_word),
            max_turns: self.max_turns,
            extra: IgnoredAny,
        }
    }

    /// The role of the player to move.
    pub fn next_role(&self) -> Role {
        self.history.last().map_or(Role::Attacker, |last| last.role.opponent())
    }

    /// Appends an utterance.
    pub fn push(&mut self, role: Role, content: impl Into<String>) {
        self.history.push(Utterance::new(role, content));
    }

    /// Refuses an episode that cannot be judged.
    ///
    /// # Errors
    /// [`Error::TargetWord`] if the target word is empty, [`Error::RolesOutOfOrder`] if the roles do not alternate.
    pub fn check(&self) -> Result<()> {
        self.view().check()
    }
}

/// What judging and crediting need of an [`Utterance`], borrowed from it or from a row of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct UtteranceView<'a> {
    /// The speaker.
    pub role: Role,
    /// The text, unchanged.
    #[serde(borrow)]
    pub content: Cow<'a, str>,
    #[serde(flatten)]
    extra: IgnoredAny,
}

impl<'a> From<&'a Utterance> for UtteranceView<'a> {
    fn from(utterance: &'a Utterance) -> Self {
        Self { role: utterance.role, content: Cow::Borrowed(&utterance.content), extra: IgnoredAny }
    }
}

/// What judging and crediting need of an [`Episode`], borrowed from it or from a row of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct EpisodeView<'a> {
    /// The utterances in order, the attacker's first.
    #[serde(borrow)]
    pub history: Vec<UtteranceView<'a>>,
    /// The word that only the attacker knows.
    #[serde(borrow)]
    pub target_word: Cow<'a, str>,
    /// Turns after which an undecided game is tied.
    #[serde(default = "default_turns")]
    pub max_turns: usize,
    #[serde(flatten)]
    extra: IgnoredAny,
}

impl<'a> EpisodeView<'a> {
    /// Parses and checks a row of a file.
    ///
    /// # Errors
    /// The row is not an episode, or [`EpisodeView::check`] refuses it. The error names file, row and cause.
    pub fn from_row(row: &Row<'a>) -> Result<Self> {
        let episode: Self = row.parse()?;
        episode.check().map_err(|error| row.error(error.to_string()))?;
        Ok(episode)
    }

    /// Refuses an episode that cannot be judged.
    ///
    /// # Errors
    /// [`Error::TargetWord`] if the target word is empty, [`Error::RolesOutOfOrder`] if the roles do not alternate.
    pub fn check(&self) -> Result<()> {
        if self.target_word.trim().is_empty() {
            return Err(Error::TargetWord { word: self.target_word.clone().into_owned(), reason: "it is empty" });
        }
        let wrong = self.history.iter().enumerate().find(|(index, u)| u.role != Role::at(*index));
        match wrong {
            Some((index, u)) => Err(Error::RolesOutOfOrder { index, found: u.role, expected: Role::at(index) }),
            None => Ok(()),
        }
    }
}

/// Reads checked episodes from a JSON list or JSONL, each with its 1-based row. Memory does not grow with the file.
#[derive(Debug)]
pub struct EpisodeReader(RowReader<Episode>);

impl EpisodeReader {
    /// Opens a file. A file whose first character is `[` is a JSON list.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self(RowReader::open(path)?))
    }

    /// As [`EpisodeReader::open`]; refuses a file without any text. The list `[]` is a file without episodes.
    ///
    /// # Errors
    /// As [`EpisodeReader::open`], or [`spag_io::Error::Empty`].
    pub fn open_with_rows(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self(RowReader::open_with_rows(path)?))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Iterator for EpisodeReader {
    type Item = Result<(usize, Episode)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.0.next()?;
        Some(row.map_err(Error::from).and_then(|(row, episode)| match episode.check() {
            Ok(()) => Ok((row, episode)),
            Err(e) => Err(spag_io::Error::Row { path: self.0.path().to_owned(), row, reason: e.to_string() }.into()),
        }))
    }
}

/// Reads all episodes of a file.
///
/// # Errors
/// The file cannot be read, or a row is not an episode. The error names file, row and cause.
pub fn read_episodes(path: impl AsRef<Path>) -> Result<Vec<Episode>> {
    EpisodeReader::open(path)?.map(|row| row.map(|(_, episode)| episode)).collect()
}
