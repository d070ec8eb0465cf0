//! The end of a process's part; rank 0 writes the results.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;
use spag_io::{FileLock, write_json_atomically};

use super::{OpenJob, PlayJob, RunStats};
use crate::error::{Error, Result};
use crate::summary::GamesSummary;

/// How a run stands when one of its processes has done its part.
#[derive(Clone, Debug, PartialEq)]
pub enum Finished {
    /// Rank 0: the results are written.
    Written {
        /// All games that could be played, in the order of the words.
        results: PathBuf,
        /// What they say.
        summary: Box<GamesSummary>,
        /// Games that are missing: they failed, or a process was stopped.
        missing: usize,
    },
    /// Another rank: rank 0 writes the results.
    ByRankZero,
}

/// What the summary's file holds.
#[derive(Serialize)]
struct SummaryFile<'a> {
    missing: usize,
    #[serde(flatten)]
    games: &'a GamesSummary,
    this_run: &'a RunStats,
}

impl OpenJob {
    /// Ends this process's part: gives its record up and, on rank 0, writes results and summary.
    ///
    /// # Errors
    /// A record of another process that holds something else, or files that cannot be written.
    pub fn finish(mut self, run: &RunStats) -> Result<Finished> {
        if !self.job.rank.is_first() {
            return Ok(Finished::ByRankZero);
        }
        let _gate = FileLock::wait(self.job.files.lock())?;
        self.take_in_others()?;
        let missing = self.record.missing().len();
        let summary = self.tally.summary();
        let Self { job, record, .. } = self;
        let results = job.files.results();
        write_json_atomically(&results, &record.into_episodes())?;
        write_json_atomically(job.files.summary(), &SummaryFile { missing, games: &summary, this_run: run })?;
        if missing == 0 {
            forget_failed(&job)?;
        }
        Ok(Finished::Written { results, summary: Box::new(summary), missing })
    }
}

/// Games that failed once have been played since: what is said about them is no longer so.
fn forget_failed(job: &PlayJob) -> Result<()> {
    for (_, path) in job.files.failed()? {
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => return Err(Error::Io { path, source }),
            _ => {}
        }
    }
    Ok(())
}
