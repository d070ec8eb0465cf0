//! Files in: episodes and word lists.

mod words;

use std::path::Path;

use spag_io::RowReader;

pub use words::{parse_words, read_words};

use crate::episode::Episode;
use crate::error::Result;

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
            Err(error) => return Some(Err(error.into())),
        };
        Some(match episode.check() {
            Ok(()) => Ok((row, episode)),
            Err(e) => Err(spag_io::Error::Row { path: self.0.path().to_owned(), row, reason: e.to_string() }.into()),
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
