//! What an output was made from, in a small JSON file beside it.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use spag_io::{Error, Result, Wordings, cause, read_whole, sha256, write_json_atomically};

/// The file in the folder of a model.
const IN_FOLDER: &str = "spag-provenance.json";
/// What is appended to the name of a file.
const BESIDE_FILE: &str = ".provenance.json";
/// The most bytes of a record.
const MAX_BYTES: u64 = 1 << 20;
/// The most wordings and the most runs of games of a record, of which the last ones are left out.
const MOST: usize = 500;

/// What games, samples or a model were made from.
///
/// The formats of those files are fixed, so the record is a file of its own: `NAME.provenance.json` beside the file `NAME`,
/// `spag-provenance.json` in the folder of a model. Files of other programs have none.
///
/// ```
/// use spag_io::{PromptFormat, Wordings};
/// use spag_run::Provenance;
///
/// let folder = tempfile::tempdir()?;
/// let samples = folder.path().join("samples.json");
/// std::fs::write(&samples, "[]")?;
/// let wordings = Wordings { file: "ours.json".into(), sha256: spag_io::sha256(b"{}"), format: PromptFormat::Plain };
/// let made = Provenance { wordings: vec![wordings.clone()], ..Provenance::default() };
/// made.write_of(&samples)?;
/// assert_eq!(Provenance::read_of(&samples)?, Some(made.clone()));
/// assert_eq!(made.other_wordings(&wordings), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The wordings of the prompts.
    pub wordings: Vec<Wordings>,
    /// The games: those of the file, those of the samples, or all that the model was trained on.
    pub games: Vec<PlayedGames>,
}

/// The games of a run of self-play, as far as they do not follow from the players.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedGames {
    /// The seed of the run.
    pub seed: u64,
    /// SHA-256 of its target words, one a line.
    pub words_sha256: String,
}

impl PlayedGames {
    /// The games on `words` with a seed.
    pub fn new(seed: u64, words: &[String]) -> Self {
        Self { seed, words_sha256: sha256(words.join("\n").as_bytes()) }
    }
}

impl Provenance {
    /// The record of a file, or of the model in a folder; `None` if there is none.
    ///
    /// # Errors
    /// The record cannot be read or is damaged.
    pub fn read_of(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let record = Self::path_of(path);
        let bytes = match read_whole(&record, MAX_BYTES) {
            // Not a folder: the parent of what was named is a file, which is reported where it is read.
            Err(Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            read => read?,
        };
        let mut made: Self = serde_json::from_slice(&bytes).map_err(|error| {
            let reason = format!("{}; delete it to go on without it", cause::<Self>(&bytes, "file", &error));
            Error::Json { path: record, reason }
        })?;
        made.shorten();
        Ok(Some(made))
    }

    /// Writes the record of a file or of the model in a folder, or deletes that of an earlier one if this is empty. Does
    /// nothing for pipes and devices.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn write_of(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if !path.is_dir() && !path.is_file() {
            return Ok(());
        }
        let record = Self::path_of(path);
        if *self != Self::default() {
            return write_json_atomically(&record, self);
        }
        match fs::remove_file(&record) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(&record)(error)),
            _ => Ok(()),
        }
    }

    /// Where the record of a file, or of the model in a folder, is.
    pub fn path_of(path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if path.is_dir() {
            return path.join(IN_FOLDER);
        }
        let mut name = OsString::from(path);
        name.push(BESIDE_FILE);
        name.into()
    }

    /// The recorded wordings if there are some, all of them other than `now` or in another format.
    pub fn other_wordings(&self, now: &Wordings) -> Option<&Wordings> {
        let known = self.wordings.iter().any(|wordings| wordings.are_those_of(now));
        self.wordings.first().filter(|_| !known)
    }

    fn shorten(&mut self) {
        self.wordings.truncate(MOST);
        self.games.truncate(MOST);
    }

    /// Adds what is not in here yet, at the end.
    pub fn extend(&mut self, other: Self) {
        for wordings in other.wordings {
            if self.wordings.iter().all(|known| !known.are_those_of(&wordings)) {
                self.wordings.push(wordings);
            }
        }
        for games in other.games {
            if !self.games.contains(&games) {
                self.games.push(games);
            }
        }
        self.shorten();
    }
}

#[cfg(test)]
mod tests {
    use spag_io::PromptFormat;

    use super::*;

    fn wordings(file: &str, sha256: &str) -> Wordings {
        Wordings { file: file.into(), sha256: sha256.into(), format: PromptFormat::Plain }
    }

    #[test]
    fn record_is_beside_a_file_and_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        fs::write(&file, "[]").unwrap();
        let made = Provenance {
            wordings: vec![wordings("w.json", "12")],
            games: vec![PlayedGames::new(7, &["tea".into(), "bear".into()])],
        };
        for (path, record) in [(file.as_path(), "a.json.provenance.json"), (folder.path(), "spag-provenance.json")] {
            assert_eq!(Provenance::read_of(path).unwrap(), None);
            made.write_of(path).unwrap();
            assert!(folder.path().join(record).is_file());
            assert_eq!(Provenance::read_of(path).unwrap().as_ref(), Some(&made));
            Provenance::default().write_of(path).unwrap();
            assert!(!folder.path().join(record).exists());
        }
        made.write_of("/dev/null").unwrap();
        assert!(!Path::new("/dev/null.provenance.json").exists());
    }

    #[test]
    fn damaged_record_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(IN_FOLDER), "{\"wordings\": 3}").unwrap();
        let error = Provenance::read_of(folder.path()).unwrap_err().to_string();
        assert!(error.contains(IN_FOLDER) && error.contains("delete it"), "{error}");
    }

    #[test]
    fn wordings_are_other_if_no_digest_is_equal() {
        let mut made = Provenance::default();
        assert_eq!(made.other_wordings(&wordings("b", "2")), None);
        made.extend(Provenance { wordings: vec![wordings("a", "1")], ..Provenance::default() });
        assert_eq!(made.other_wordings(&wordings("b", "2")), Some(&wordings("a", "1")));
        made.extend(Provenance { wordings: vec![wordings("b", "2"), wordings("c", "1")], ..Provenance::default() });
        assert_eq!(made.wordings.len(), 2);
        assert_eq!(made.other_wordings(&wordings("d", "2")), None);
        let chat = Wordings { format: PromptFormat::Chat, ..wordings("d", "2") };
        assert_eq!(made.other_wordings(&chat), Some(&wordings("a", "1")));
        assert!(chat.to_string().starts_with("d as a chat (SHA-256 2"), "{chat}");
        let text = serde_json::to_string(&[&chat, &wordings("a", "1")]).unwrap();
        assert_eq!(text, r#"[{"file":"d","sha256":"2","format":"chat"},{"file":"a","sha256":"1"}]"#);
        assert_eq!(serde_json::from_str::<Vec<Wordings>>(&text).unwrap(), [chat, wordings("a", "1")]);
    }
}
