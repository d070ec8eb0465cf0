//! The files of a self-play run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Result;

/// The files of a run, which are in one folder and have a common prefix.
///
/// ```
/// use spag_selfplay::RunFiles;
/// let files = RunFiles::new("out", "llama_sampling_words");
/// assert_eq!(files.record(3), std::path::Path::new("out/llama_sampling_words_rank3.jsonl"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    folder: PathBuf,
    prefix: String,
}

impl RunFiles {
    /// The files in `folder` whose names start with `prefix`.
    pub fn new(folder: impl Into<PathBuf>, prefix: impl Into<String>) -> Self {
        Self { folder: folder.into(), prefix: prefix.into() }
    }

    /// The record to which a rank appends its games.
    pub fn record(&self, rank: usize) -> PathBuf {
        self.named(&format!("_rank{rank}.jsonl"))
    }

    /// All games in the order of the words, written at the end.
    pub fn results(&self) -> PathBuf {
        self.named("_results.json")
    }

    /// Statistics of the games, written at the end.
    pub fn summary(&self) -> PathBuf {
        self.named("_summary.json")
    }

    /// The file that a process locks while it checks for other runs. It is empty and never deleted.
    pub fn lock(&self) -> PathBuf {
        self.named(".lock")
    }

    /// The existing records with their ranks, including ranks of earlier launches.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn records(&self) -> Result<Vec<(usize, PathBuf)>> {
        self.ranked(".jsonl")
    }

    /// The existing files of failed games.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn failed(&self) -> Result<Vec<PathBuf>> {
        Ok(self.ranked("_failed.jsonl")?.into_iter().map(|(_, path)| path).collect())
    }

    fn named(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}{suffix}", self.prefix))
    }

    /// Existing files of a suffix with their ranks, in the order of the ranks.
    fn ranked(&self, suffix: &str) -> Result<Vec<(usize, PathBuf)>> {
        let io = spag_io::Error::io(&self.folder);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(io)?.path();
            found.extend(self.rank(&path, suffix).map(|rank| (rank, path)));
        }
        found.sort();
        Ok(found)
    }

    fn rank(&self, path: &Path, suffix: &str) -> Option<usize> {
        let name = path.file_name()?.to_str()?;
        let digits = name.strip_prefix(&self.prefix)?.strip_prefix("_rank")?.strip_suffix(suffix)?;
        let rank: usize = digits.parse().ok()?;
        // "+1" and "01" parse as numbers too.
        (rank.to_string() == digits).then_some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_rank_are_records() {
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
        assert_eq!(files.failed().unwrap(), [folder.path().join("im_sampling_w_rank2_failed.jsonl")]);
    }
}
