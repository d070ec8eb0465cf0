//! Files in and out: rows of JSON, word lists, lines appended as they come.

mod append;
mod blocks;
mod cause;
mod layout;
mod lock;
mod rows;
mod split;
mod words;
mod write;

use std::path::Path;

pub use append::JsonlAppender;
pub(crate) use append::read_whole_lines;
pub use blocks::{Block, RowBlocks};
pub(crate) use cause::cause;
pub use layout::Row;
pub use lock::FileLock;
pub use rows::RowReader;
pub use words::{parse_words, read_words};
pub use write::{AtomicFile, write_json_atomically};

use crate::episode::Episode;
use crate::error::{Error, Result};

/// Reads episodes one at a time from a JSON list or JSONL; memory does not grow with the file.
///
/// Yields the 1-based row with each episode. Every episode has been checked: its roles alternate and its word is not
/// empty.
#[derive(Debug)]
pub struct EpisodeReader(RowReader<Episode>);

impl EpisodeReader {
    /// Opens a file; which of the two layouts it has is told by its first character.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self(RowReader::open(path)?))
    }
}

impl Iterator for EpisodeReader {
    type Item = Result<(usize, Episode)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (row, episode) = match self.0.next()? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        Some(match episode.check() {
            Ok(()) => Ok((row, episode)),
            Err(e) => Err(Error::Row { path: self.0.path().to_owned(), row, reason: e.to_string() }),
        })
    }
}

/// Reads all episodes of a file.
///
/// # Errors
/// A file that cannot be read, or a row that is not an episode: the error names file, row and cause.
pub fn read_episodes(path: impl AsRef<Path>) -> Result<Vec<Episode>> {
    EpisodeReader::open(path)?.map(|row| row.map(|(_, episode)| episode)).collect()
}
