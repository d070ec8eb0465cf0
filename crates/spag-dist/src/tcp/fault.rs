//! Why a group can go on no longer, as ranks tell each other.

use serde::{Deserialize, Serialize};

use crate::Error;

/// What has ended the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A rank is gone or silent.
    Lost,
    /// A rank ended the run itself.
    Aborted,
    /// A rank does something else than the others.
    OutOfStep,
}

/// The first thing that went wrong, and the rank where it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) rank: usize,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn lost(rank: usize, reason: impl Into<String>) -> Self {
        Self { kind: Kind::Lost, rank, reason: reason.into() }
    }

    pub(crate) fn aborted(rank: usize, reason: impl Into<String>) -> Self {
        Self { kind: Kind::Aborted, rank, reason: reason.into() }
    }

    pub(crate) fn out_of_step(rank: usize, reason: impl Into<String>) -> Self {
        Self { kind: Kind::OutOfStep, rank, reason: reason.into() }
    }

    /// A rank ended properly, but too early.
    pub(crate) fn left(rank: usize, after: u64) -> Self {
        Self::lost(rank, format!("it ended after {after} collectives, and this run needs more of them"))
    }
}

impl From<Fault> for Error {
    fn from(Fault { kind, rank, reason }: Fault) -> Self {
        match kind {
            Kind::Lost => Self::Lost { rank, reason },
            Kind::Aborted => Self::Aborted { rank, reason },
            Kind::OutOfStep => Self::OutOfStep { rank, reason },
        }
    }
}
