//! The folder of a stage: the names of its files, and the one that marks it as finished.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use spag_io::{read_json, write_json_atomically};
use spag_run::{StageDone, files};

use crate::error::{Error, Result};

/// The folder of a stage and the names of its files.
#[derive(Clone, Debug)]
pub(super) struct StageFolder {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    /// Whether the folder existed when it was opened.
    existed: bool,
}

impl StageFolder {
    /// The folder `dir`, which need not exist.
    pub(super) fn new(dir: PathBuf, name: &str) -> Self {
        Self { name: name.to_owned(), existed: dir.exists(), dir }
    }

    /// Creates the folder if it is missing.
    pub(super) fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).map_err(Error::io("create it", &self.dir))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn episodes(&self) -> PathBuf {
        self.file(files::EPISODES)
    }

    pub(super) fn samples(&self) -> PathBuf {
        self.file(files::SAMPLES)
    }

    pub(super) fn metrics(&self) -> PathBuf {
        self.file(files::METRICS)
    }

    pub(super) fn model(&self) -> PathBuf {
        self.file(files::MODEL)
    }

    /// The result of the stage; `None` if it is not finished.
    pub(super) fn done(&self) -> Result<Option<StageDone>> {
        read_run_json(&self.file(files::DONE))
    }

    /// Adds the seconds of a call of a stage that every run calls: once it has found all its records, it takes none.
    pub(super) fn add_seconds(&self, call: StageDone) -> Result<StageDone> {
        let mut done = StageDone { stage: self.name.clone(), ..self.done()?.unwrap_or_default() };
        call.seconds.into_iter().for_each(|(part, seconds)| *done.seconds.entry(part).or_default() += seconds);
        if !done.seconds.is_empty() {
            write_json_atomically(self.file(files::DONE), &done)?;
        }
        Ok(done)
    }

    /// Marks the stage as finished.
    pub(super) fn finish(&self, done: StageDone) -> Result<StageDone> {
        let done = StageDone { resumed: self.existed, ..done };
        write_json_atomically(self.file(files::DONE), &done)?;
        Ok(done)
    }
}

/// A JSON file of the run folder; `None` if there is no such file.
pub(super) fn read_run_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    read_json(path).map_err(|error| match error {
        spag_io::Error::Json { path, reason } => Error::DamagedRun { path, message: reason },
        error => error.into(),
    })
}
