//! The files of a run, by their names.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The files of a run: all in one folder, and beginning alike.
///
/// ```
/// use spag_selfplay::RunFiles;
/// let files = RunFiles::new("out", "llama_sampling_words");
/// assert_eq!(files.record(3), std::path::Path::new("out/llama_sampling_words_rank3.jsonl"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    folder: PathBuf,
    stem: String,
}

impl RunFiles {
    /// Those in `folder` that begin with `stem`.
    pub fn new(folder: impl Into<PathBuf>, stem: impl Into<String>) -> Self {
        Self { folder: folder.into(), stem: stem.into() }
    }

    /// Where the process of this rank appends its games.
    pub fn record(&self, rank: usize) -> PathBuf {
        self.named(&format!("_rank{rank}.jsonl"))
    }

    /// All games in the order of the words, once they are played.
    pub fn results(&self) -> PathBuf {
        self.named("_results.json")
    }

    /// What the games say.
    pub fn summary(&self) -> PathBuf {
        self.named("_summary.json")
    }

    /// The file whose lock a process holds while it looks who else is at work. It is empty, and stays.
    pub fn lock(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.stem))
    }

    /// The records that are there, with their ranks: also those that another number of processes has left.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn records(&self) -> Result<Vec<(usize, PathBuf)>> {
        self.ranked(".jsonl")
    }

    /// The files of failed games that are there, with their ranks.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn failed(&self) -> Result<Vec<(usize, PathBuf)>> {
        self.ranked("_failed.jsonl")
    }

    fn named(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}{ending}", self.stem))
    }

    /// Files that are named by their rank and end so, in the order of the ranks.
    fn ranked(&self, ending: &str) -> Result<Vec<(usize, PathBuf)>> {
        let io = |source| Error::Io { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(io)?.path();
            found.extend(self.rank(&path, ending).map(|rank| (rank, path)));
        }
        found.sort();
        Ok(found)
    }

    fn rank(&self, path: &Path, ending: &str) -> Option<usize> {
        let name = path.file_name()?.to_str()?;
        let digits = name.strip_prefix(&self.stem)?.strip_prefix("_rank")?.strip_suffix(ending)?;
        let rank: usize = digits.parse().ok()?;
        // "+1" and "01" are numbers too, but not the names that are given here.
        (rank.to_string() == digits).then_some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_from_everything_else() {
        let folder = tempfile::tempdir().unwrap();
        let files = RunFiles::new(folder.path(), "im_sampling_w");
        let missing = RunFiles::new(folder.path().join("absent"), "im");
        assert_eq!(missing.records().unwrap(), []);
        for name in [
            "im_sampling_w_rank10.jsonl",
            "im_sampling_w_rank2.jsonl",
            "im_sampling_w_rank2_failed.jsonl",
            "im_sampling_w_rank02.jsonl",
            "im_sampling_w_rank+1.jsonl",
            "im_sampling_w_rank.jsonl",
            "im_sampling_w_rank1.json",
            "im_sampling_w2_rank1.jsonl",
            "other_im_sampling_w_rank1.jsonl",
            "im_sampling_w_results.json",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(files.records().unwrap(), [(2, files.record(2)), (10, files.record(10))]);
        let failed: Vec<usize> = files.failed().unwrap().into_iter().map(|(rank, _)| rank).collect();
        assert_eq!(failed, [2]);
    }
}
