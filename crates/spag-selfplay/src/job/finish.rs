//! The end of a process's part: the last one to get there writes the results.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;
use spag_game::{FileLock, write_json_atomically};

use super::{OpenJob, PlayJob, RunStats};
use crate::error::{Error, Result};
use crate::summary::GamesSummary;

/// How a run stands when one of its processes has done its part.
#[derive(Clone, Debug, PartialEq)]
pub enum Finished {
    /// The results are written. Nobody else is at work, or there is nothing left to be played.
    Written {
        /// All games that could be played, in the order of the words.
        results: PathBuf,
        /// What they say.
        summary: Box<GamesSummary>,
        /// Games of this process that are missing: they failed.
        missing: usize,
        /// Games of other processes that are missing: those have not begun, were stopped, or had failures too.
        missing_of_others: usize,
    },
    /// Other processes still play; the last of them writes the results.
    OthersAtWork {
        /// Their ranks.
        ranks: Vec<usize>,
        /// Games of this process that are missing: they failed.
        missing: usize,
    },
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
    /// Ends this process's part: gives its record up, and writes results and summary unless others still play.
    ///
    /// # Errors
    /// A record of another process that holds something else, or files that cannot be written.
    pub fn finish(mut self, run: &RunStats) -> Result<Finished> {
        let _gate = FileLock::wait(self.job.files.lock())?;
        self.take_in_others()?;
        let share = self.job.share;
        let (mine, others): (Vec<_>, Vec<_>) =
            self.record.missing().into_iter().map(|spec| spec.game).partition(|game| share.holds(*game));
        let summary = self.tally.summary();
        let Self { job, record, .. } = self;
        // From here on this process counts as done: whoever gets the gate next does not wait for it.
        let episodes = record.into_episodes();
        if !others.is_empty() {
            let ranks = at_work(&job)?;
            if !ranks.is_empty() {
                return Ok(Finished::OthersAtWork { ranks, missing: mine.len() });
            }
        }
        let results = job.files.results();
        write_json_atomically(&results, &episodes)?;
        let missing = mine.len() + others.len();
        write_json_atomically(job.files.summary(), &SummaryFile { missing, games: &summary, this_run: run })?;
        if missing == 0 {
            forget_failed(&job)?;
        }
        Ok(Finished::Written {
            results,
            summary: Box::new(summary),
            missing: mine.len(),
            missing_of_others: others.len(),
        })
    }
}

/// Ranks other than this one whose records are held by a living process.
fn at_work(job: &PlayJob) -> Result<Vec<usize>> {
    let mut ranks = Vec::new();
    for (rank, path) in job.files.records()? {
        if rank != job.share.rank() && FileLock::is_taken(&path)? {
            ranks.push(rank);
        }
    }
    Ok(ranks)
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
