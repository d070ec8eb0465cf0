//! The files of a job.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Result;

/// The files of a job, which are in one folder and have a common first part of their names.
///
/// ```
/// use std::path::Path;
/// use spag_selfplay::JobFiles;
///
/// let files = JobFiles::with_results("out", "llama_sampling_words");
/// assert_eq!(files.record(3), Path::new("out/llama_sampling_words_rank3.jsonl"));
/// let files = JobFiles::ordered("run/im/episodes.jsonl");
/// assert_eq!([files.record(0), files.results()], ["run/im/episodes.jsonl"; 2].map(Path::new));
/// assert_eq!(files.record(3), Path::new("run/im/episodes.rank3.jsonl"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFiles {
    folder: PathBuf,
    stem: String,
    pub(super) form: ResultsForm,
}

/// What becomes of the records at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultsForm {
    /// The games that are finished are written into a JSON array, and their statistics into a summary.
    Array,
    /// When all games are finished, they are written in order into one JSONL file in place of the records.
    Ordered,
    /// The records stay as they are.
    Records,
}

impl JobFiles {
    /// The files of `spag-play`: `STEM_rankR.jsonl`, the records, and at the end `STEM_results.json`, an array of the
    /// finished games, and `STEM_summary.json`. `STEM.lock` protects the folder from a second run.
    pub fn with_results(folder: impl Into<PathBuf>, stem: impl Into<String>) -> Self {
        Self { folder: folder.into(), stem: stem.into(), form: ResultsForm::Array }
    }

    /// One file, `NAME.jsonl`, the record of rank 0, beside which other ranks append to `NAME.rankR.jsonl`. When all
    /// games are finished, `NAME.jsonl` has them in order and the other records are deleted. The folder must be
    /// protected from a second run with other ranks.
    pub fn ordered(path: impl AsRef<Path>) -> Self {
        Self::of_path(path.as_ref(), ResultsForm::Ordered)
    }

    /// As [`JobFiles::ordered`], but the records stay as they are, with the games in the order in which they ended.
    pub fn records_only(path: impl AsRef<Path>) -> Self {
        Self::of_path(path.as_ref(), ResultsForm::Records)
    }

    fn of_path(path: &Path, form: ResultsForm) -> Self {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, stem: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), form }
    }

    /// The record to which a rank appends its games.
    pub fn record(&self, rank: usize) -> PathBuf {
        match (self.form, rank) {
            (ResultsForm::Array, _) => self.named(&format!("_rank{rank}.jsonl")),
            (_, 0) => self.named(".jsonl"),
            _ => self.named(&format!(".rank{rank}.jsonl")),
        }
    }

    /// The file of all games at the end; without results of its own, the record of rank 0.
    pub fn results(&self) -> PathBuf {
        match self.form {
            ResultsForm::Array => self.named("_results.json"),
            ResultsForm::Ordered | ResultsForm::Records => self.record(0),
        }
    }

    /// Statistics of the games, written beside an array of results.
    pub fn summary(&self) -> Option<PathBuf> {
        (self.form == ResultsForm::Array).then(|| self.named("_summary.json"))
    }

    /// The file that a process locks while it checks for other runs. It is empty and never deleted. `None` if the folder
    /// is protected otherwise.
    pub(super) fn lock(&self) -> Option<PathBuf> {
        (self.form == ResultsForm::Array).then(|| self.named(".lock"))
    }

    /// The existing records with their ranks, including ranks of earlier launches.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn records(&self) -> Result<Vec<(usize, PathBuf)>> {
        self.ranked(".jsonl")
    }

    /// The existing files of failed games, named as by [`GameRecord`](spag_game::GameRecord).
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn failed(&self) -> Result<Vec<PathBuf>> {
        Ok(self.ranked("_failed.jsonl")?.into_iter().map(|(_, path)| path).collect())
    }

    fn named(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}{suffix}", self.stem))
    }

    /// Existing files of a suffix with their ranks, in the order of the ranks.
    fn ranked(&self, suffix: &str) -> Result<Vec<(usize, PathBuf)>> {
        // A file name alone is in the working folder.
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let io = spag_io::Error::io(folder);
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(io)?.file_name();
            let rank = name.to_str().and_then(|name| self.rank(name, suffix));
            found.extend(rank.map(|rank| (rank, self.folder.join(name))));
        }
        found.sort();
        Ok(found)
    }

    /// The rank in a file name that ends with `suffix`.
    fn rank(&self, name: &str, suffix: &str) -> Option<usize> {
        let rest = name.strip_prefix(&self.stem)?.strip_suffix(suffix)?;
        let digits = match self.form {
            ResultsForm::Array => rest.strip_prefix("_rank")?,
            _ if rest.is_empty() => return Some(0),
            _ => rest.strip_prefix(".rank").filter(|digits| *digits != "0")?,
        };
        let rank: usize = digits.parse().ok()?;
        // "+1" and "01" parse as numbers too.
        (rank.to_string() == digits).then_some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(folder: &Path, names: &[&str]) {
        names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
    }

    #[test]
    fn only_files_of_a_rank_are_records() {
        let folder = tempfile::tempdir().unwrap();
        let files = JobFiles::with_results(folder.path(), "im_sampling_w");
        let missing = JobFiles::with_results(folder.path().join("absent"), "im");
        assert_eq!(missing.records().unwrap(), []);
        create(
            folder.path(),
            &[
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
            ],
        );
        assert_eq!(files.records().unwrap(), [(2, files.record(2)), (10, files.record(10))]);
        assert_eq!(files.failed().unwrap(), [folder.path().join("im_sampling_w_rank2_failed.jsonl")]);
    }

    #[test]
    fn first_record_of_one_file_has_no_rank_in_its_name() {
        let folder = tempfile::tempdir().unwrap();
        create(
            folder.path(),
            &[
                "episodes.jsonl",
                "episodes.rank1.jsonl",
                "episodes.rank12.jsonl",
                "episodes.rank0.jsonl",
                "episodes.rank01.jsonl",
                "episodes_failed.jsonl",
                "episodes.rank1_failed.jsonl",
                "episodes.jsonl.provenance.json",
                "more-episodes.jsonl",
                "episodes-2.jsonl",
            ],
        );
        let path = folder.path().join("episodes.jsonl");
        for files in [JobFiles::ordered(&path), JobFiles::records_only(&path)] {
            let records = [0, 1, 12].map(|rank| (rank, files.record(rank)));
            assert_eq!((files.records().unwrap(), files.results()), (records.to_vec(), path.clone()));
            let failed = ["episodes_failed.jsonl", "episodes.rank1_failed.jsonl"].map(|name| folder.path().join(name));
            assert_eq!((files.failed().unwrap(), files.summary()), (failed.to_vec(), None));
        }
    }
}
