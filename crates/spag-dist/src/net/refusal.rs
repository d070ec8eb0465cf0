//! Why rank 0 does not let a rank in, as it tells the others.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Why ranks do not come together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// [`Error::Disagree`].
    Disagree { rank: usize, what: String, theirs: String, first: String },
    /// [`Error::OtherStart`].
    OtherStart { rank: usize, theirs: usize, first: usize },
    /// [`Error::RankTaken`].
    RankTaken { rank: usize },
    /// [`Error::Missing`].
    Missing { ranks: Vec<usize>, address: String, seconds: u64, seen: String },
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Disagree { rank, what, theirs, first } => Self::Disagree { rank, what, theirs, first },
            Refusal::OtherStart { rank, theirs, first } => Self::OtherStart { rank, theirs, first },
            Refusal::RankTaken { rank } => Self::RankTaken { rank },
            Refusal::Missing { ranks, address, seconds, seen } => Self::Missing { ranks, address, seconds, seen },
        }
    }
}
