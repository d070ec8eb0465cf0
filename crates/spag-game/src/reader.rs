//! Reads files of episodes.

use std::iter::Peekable;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use spag_io::RowReader;

use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::game::Game;
use crate::verdict::Verdict;

/// Reads episodes from a JSON list or JSONL, each with its 1-based row. Their judge checks them. Memory does not grow with
/// the file.
#[derive(Debug)]
pub struct EpisodeReader {
    path: PathBuf,
    rows: Peekable<RowReader<Episode>>,
}

impl EpisodeReader {
    /// Opens a file. A file whose first character is `[` is a JSON list.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        Ok(Self { rows: RowReader::open(&path)?.peekable(), path })
    }

    /// As [`EpisodeReader::open`]; refuses a file without any text. The list `[]` is a file without episodes.
    ///
    /// # Errors
    /// As [`EpisodeReader::open`], or [`spag_io::Error::Empty`].
    pub fn open_with_rows(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        Ok(Self { rows: RowReader::open_with_rows(&path)?.peekable(), path })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name and the options of the game that the next episode is of; `None` if it names none, as those of Adversarial
    /// Taboo.
    pub fn game(&mut self) -> Option<(String, Map<String, Value>)> {
        let (_, episode) = self.rows.peek()?.as_ref().ok()?;
        episode.game().map(|(name, options)| (name.to_owned(), options))
    }

    /// The episodes as games of `game`, with their verdicts. An error names the row that is no such game.
    pub fn judged(mut self, game: &dyn Game) -> impl Iterator<Item = Result<(usize, Episode, Verdict)>> {
        let mut judge = game.judge();
        std::iter::from_fn(move || {
            let row = game.labels().reading(|| self.next())?;
            Some(row.and_then(|(row, episode)| match judge.judge(&episode.view()) {
                Ok(verdict) => Ok((row, episode, verdict)),
                Err(e) => Err(spag_io::Error::Row { path: self.path().to_owned(), row, reason: e.to_string() }.into()),
            }))
        })
    }
}

impl Iterator for EpisodeReader {
    type Item = Result<(usize, Episode)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.rows.next()?.map_err(Error::from))
    }
}

/// Reads all games of a file, with their verdicts.
///
/// # Errors
/// The file cannot be read, or a row is no game of `game`. The error names file, row and cause.
pub fn read_games(path: impl AsRef<Path>, game: &dyn Game) -> Result<Vec<(Episode, Verdict)>> {
    EpisodeReader::open(path)?.judged(game).map(|row| row.map(|(_, episode, verdict)| (episode, verdict))).collect()
}

/// Reads all episodes of a file.
///
/// # Errors
/// The file cannot be read, or a row is not an episode. The error names file, row and cause.
pub fn read_episodes(path: impl AsRef<Path>) -> Result<Vec<Episode>> {
    EpisodeReader::open(path)?.map(|row| row.map(|(_, episode)| episode)).collect()
}
