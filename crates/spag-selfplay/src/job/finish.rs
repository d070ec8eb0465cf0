//! The end of a job: results, summary, and files that are no longer needed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use spag_dist::queue::Queue;
use spag_game::GameRecord;
use spag_io::{FileLock, write_json_atomically, write_jsonl_atomically};

use super::files::{JobFiles, ResultsForm};
use super::{OpenJob, RunStats};
use crate::error::Result;
use crate::game_stats::GameStats;

/// The state of a job when one of its processes has finished.
#[derive(Clone, Debug, PartialEq)]
pub enum Finished {
    /// On rank 0: the results are written, as far as the [`JobFiles`] have any.
    Written {
        /// The file of all finished games.
        results: PathBuf,
        /// Their statistics.
        stats: Box<GameStats>,
        /// Missing games: they failed, or a process was stopped. The results of [`JobFiles::ordered`] are then not
        /// written, and its records stay.
        missing: usize,
        /// The file with the games that failed on rank 0; it exists only if there are any.
        failed: PathBuf,
        /// Ranks that hung or never joined. Their games were reassigned.
        lost: Vec<spag_dist::Error>,
    },
    /// On another rank: rank 0 writes the results.
    ByRankZero,
}

/// The summary file.
#[derive(Serialize)]
struct SummaryFile<'a> {
    missing: usize,
    #[serde(flatten)]
    games: &'a GameStats,
    this_run: &'a RunStats,
}

impl OpenJob<'_> {
    /// Closes the record and, on rank 0, writes the results. `run` becomes a part of the summary, if there is one.
    ///
    /// # Errors
    /// A record of another process that has games of another run, files that cannot be written, or a lost rank.
    pub fn finish(mut self, run: &RunStats) -> Result<Finished> {
        self.report_all_finished()?;
        if self.ranks.rank() != 0 {
            drop(self.record);
            self.ranks.barrier()?;
            return Ok(Finished::ByRankZero);
        }
        let gate = self.files.lock().map(FileLock::wait).transpose()?;
        self.read_other_ranks()?;
        let Self { files, ranks, record, stats, queue, .. } = self;
        let (missing, failed) = (record.missing().len(), record.failed_path().to_owned());
        write_results(&files, record, missing)?;
        if let Some(path) = files.summary() {
            write_json_atomically(path, &SummaryFile { missing, games: &stats, this_run: run })?;
        }
        if missing == 0 {
            // All games that failed have been played since.
            files.failed()?.iter().try_for_each(|path| remove(path))?;
        }
        // A rank that starts late needs it before it joins.
        drop(gate);
        // Waits until the other ranks know that all games are finished.
        let lost = queue.map(Queue::close).unwrap_or_default();
        ranks.barrier()?;
        Ok(Finished::Written { results: files.results(), stats: Box::new(stats), missing, failed, lost })
    }
}

fn write_results(files: &JobFiles, record: GameRecord, missing: usize) -> Result<()> {
    match files.form {
        ResultsForm::Array => Ok(write_json_atomically(files.results(), &record.into_episodes())?),
        ResultsForm::Ordered if missing == 0 => {
            write_jsonl_atomically(files.results(), &record.into_episodes())?;
            files.records()?.into_iter().filter(|(rank, _)| *rank != 0).try_for_each(|(_, path)| remove(&path))
        }
        ResultsForm::Ordered | ResultsForm::Records => Ok(()),
    }
}

/// Deletes a file unless another process has deleted it.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(spag_io::Error::io(path)(error).into()),
        _ => Ok(()),
    }
}
