//! The end of a run.

use crate::error::Error;
use crate::report::Report;

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The report, on rank 0.
    pub report: Option<Report>,
    /// [`Error::Stopped`] if the run stopped before its last stage: by a rule of `[stop_when]`, or since a round had no won
    /// game. On every rank.
    pub stopped: Option<Error>,
}
