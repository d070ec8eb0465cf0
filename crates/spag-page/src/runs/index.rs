//! The games of a file: where they are and how they ended. The utterances stay on disk.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::time::SystemTime;

use serde_json::Value;
use spag_game::{Ending, Episode, Game, Judge, Seat};
use spag_io::{EnclosedFolder, cause};
use spag_serve::ApiError;

/// Games of a file that are listed.
pub(super) const MAX_GAMES: usize = 200_000;
/// Bytes of a row. Longer ones are not read.
const MAX_ROW: u64 = 1 << 20;
/// Unreadable rows whose reasons are kept.
const REASONS: usize = 5;

/// What a file's games are known by as long as it has not changed.
pub(super) type Version = (u64, Option<SystemTime>);

/// The games of a file.
pub(super) struct GameIndex {
    pub(super) version: Version,
    pub(super) games: Vec<Entry>,
    /// Rows that are no games.
    pub(super) unreadable: usize,
    /// The first of them, with the reason.
    pub(super) reasons: Vec<(usize, String)>,
    /// Whether there are more than [`MAX_GAMES`].
    pub(super) cut: bool,
}

/// A game.
pub(super) struct Entry {
    /// Its 1-based line.
    pub(super) row: usize,
    offset: u64,
    bytes: u64,
    /// The word in lower case.
    pub(super) word: Box<str>,
    /// `None` if the game failed.
    pub(super) ending: Option<Ending>,
    /// `None` for a tie, and if the game failed.
    pub(super) winner: Option<Seat>,
    /// Utterances up to the deciding one.
    pub(super) length: usize,
}

/// The version of a file.
///
/// # Errors
/// It cannot be read.
pub(super) fn version(file: &File) -> io::Result<Version> {
    let found = file.metadata()?;
    Ok((found.len(), found.modified().ok()))
}

/// The game of an entry of a file in a folder.
///
/// # Errors
/// The file has changed since.
pub(super) fn read(run: &EnclosedFolder, file: &str, entry: &Entry) -> Result<Episode, ApiError> {
    let read = || {
        let mut file = run.open(file)?;
        file.seek(SeekFrom::Start(entry.offset))?;
        let mut row = Vec::new();
        file.take(entry.bytes).read_to_end(&mut row)?;
        serde_json::from_slice::<Episode>(&row).map_err(io::Error::other)
    };
    read().map_err(|_| ApiError::server("The file of these games has changed; load the list again"))
}

impl GameIndex {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read. Rows that are no games are counted.
    pub(super) fn build(file: File, version: Version, game: &dyn Game) -> io::Result<Self> {
        let mut index = Self { version, games: Vec::new(), unreadable: 0, reasons: Vec::new(), cut: false };
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut judge = game.judge();
        let (mut row, mut offset, mut line) = (0, 0, Vec::new());
        loop {
            line.clear();
            let read = file.by_ref().take(MAX_ROW).read_until(b'\n', &mut line)? as u64;
            if read == 0 {
                return Ok(index);
            }
            row += 1;
            let skipped = if read == MAX_ROW && !line.ends_with(b"\n") { skip_line(&mut file)? } else { 0 };
            if index.games.len() >= MAX_GAMES {
                index.cut = true;
                return Ok(index);
            }
            if skipped > 0 {
                index.refuse(row, format!("it has more than {MAX_ROW} bytes"));
            } else if !line.trim_ascii().is_empty() {
                match entry(&line, judge.as_mut()) {
                    Ok(entry) => index.games.push(Entry { row, offset, bytes: read, ..entry }),
                    Err(reason) => index.refuse(row, reason),
                }
            }
            offset += read + skipped;
        }
    }

    fn refuse(&mut self, row: usize, reason: String) {
        self.unreadable += 1;
        if self.reasons.len() < REASONS {
            self.reasons.push((row, spag_io::quote(&reason)));
        }
    }
}

/// Reads up to the end of a line. Returns the number of bytes.
fn skip_line(file: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = file.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |at| at + 1);
        file.consume(length);
        skipped += length as u64;
        if end.is_some() || length == 0 {
            return Ok(skipped);
        }
    }
}

/// The entry of a row, without its place.
fn entry(line: &[u8], judge: &mut dyn Judge) -> Result<Entry, String> {
    let episode: Episode = serde_json::from_slice(line).map_err(|error| cause::<Episode>(line, "row", &error))?;
    let verdict = judge.judge(&episode.view()).map_err(|error| error.to_string())?;
    let failed = episode.extra.get("reason").and_then(Value::as_str).is_some();
    let ending = (!failed).then_some(verdict.ending);
    let winner = verdict.winner().filter(|_| !failed);
    let word = episode.item.to_lowercase().into();
    Ok(Entry { row: 0, offset: 0, bytes: 0, word, ending, winner, length: verdict.history_length })
}

#[cfg(test)]
mod tests {
    use spag_game::{Taboo, taboo};

    use super::*;

    fn index(bytes: &[u8]) -> (GameIndex, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("games"), bytes).unwrap();
        let run = EnclosedFolder::new(folder.path());
        let file = run.open("games").unwrap();
        let version = version(&file).unwrap();
        let index = GameIndex::build(file, version, &Taboo::default()).unwrap();
        let words = index.games.iter().map(|entry| read(&run, "games", entry).unwrap().item).collect();
        (index, words)
    }

    fn row(word: &str, rest: &str) -> String {
        format!(r#"{{"history": [{{"role": "attacker", "content": "Hi"}}], "target_word": "{word}"{rest}}}"#)
    }

    #[test]
    fn rows_that_are_no_games_are_counted_and_the_others_are_found() {
        let long = row(&"x".repeat(2 << 20), "");
        let text =
            [&row("Tea", ""), "{\"history\": 3}", "", "nonsense\u{7}", &long, &row("cat", r#", "reason": "gone""#)];
        let (index, words) = index(format!("{}\n{{\"history", text.join("\n")).as_bytes());
        assert_eq!(words, ["Tea", "cat"]);
        assert_eq!((&*index.games[0].word, index.games[1].row), ("tea", 6));
        assert_eq!(index.games.iter().map(|entry| entry.ending).collect::<Vec<_>>(), [Some(taboo::TIE), None]);
        assert_eq!((index.unreadable, index.cut), (4, false));
        let reasons: Vec<String> = index.reasons.iter().map(|(row, why)| format!("{row}: {why}")).collect();
        assert!(reasons[0].contains("2: history: invalid type"), "{reasons:?}");
        assert!(reasons[2].contains("5: it has more than 1048576 bytes"), "{reasons:?}");
    }

    #[test]
    fn invalid_utf8_and_binary_files_have_no_games() {
        let (index, words) = index(b"\xff\xfe\0\0\n\0\0\n");
        assert_eq!((words.len(), index.unreadable), (0, 2));
    }
}
