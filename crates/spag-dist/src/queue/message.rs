//! What the ranks and the queue say to each other.

use serde::{Deserialize, Serialize};

use crate::net::Refusal;

/// The most items in one message.
pub(crate) const MAX_ITEMS: usize = 4096;

/// From a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first words: what it was told.
    Join { version: String, world_size: usize, task: String, items: usize },
    /// I live.
    Beat,
    /// More work, at most so many items.
    Ask { at_most: usize },
    /// These are done.
    Done { items: Vec<usize> },
}

/// From rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Come in.
    Welcome,
    /// You do not fit.
    Refused(Refusal),
    /// I live.
    Beat,
    /// Work on these.
    Items(Vec<usize>),
    /// Finish what you have.
    FinishYours,
    /// Everything is done.
    Finished,
    /// You were taken for dead; your work has been given to others.
    GivenUp { reason: String },
}
