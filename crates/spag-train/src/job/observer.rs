//! Who keeps metrics and checkpoints: rank 0, from the parts of all.

use super::folder::Writer;
use crate::checkpoint;
use crate::error::Result;
use crate::metrics::{EvalRecord, Record};
use crate::trainer::{Observer, Trainer};

/// What a rank does with what there is to be kept.
pub(super) enum RankObserver<'a> {
    /// Rank 0 writes it.
    Writing(Writer<'a>),
    /// The others give their parts.
    Following,
}

impl Observer for RankObserver<'_> {
    fn record(&mut self, record: &Record) -> Result<()> {
        match self {
            Self::Writing(writer) => writer.record(record),
            Self::Following => Ok(()),
        }
    }

    fn evaluated(&mut self, record: &EvalRecord) -> Result<()> {
        match self {
            Self::Writing(writer) => writer.evaluated(record),
            Self::Following => Ok(()),
        }
    }

    fn save(&mut self, trainer: &Trainer<'_>) -> Result<()> {
        match self {
            Self::Writing(writer) => writer.save(trainer),
            Self::Following => checkpoint::write_elsewhere(trainer),
        }
    }
}
