//! Work for many ranks from one list: rank 0 hands out the numbers of its items in small pieces.
//!
//! A rank asks for a piece, works, says which items are done, and asks again. What a rank had and did not finish before
//! it died or fell silent is given to others; so every item is done at least once, whatever happens to the ranks other
//! than 0. An item may be done twice where a rank was taken for dead too early: results are to be kept by item. Pieces
//! get smaller towards the end, so that all ranks end at about the same time.
//!
//! The queue has connections of its own, not a group's: a group fails with its first rank, a queue does not. It opens
//! the same port, under the same token, as [`join`](crate::join) does, so the two are to be used one after the other,
//! not at once, or with ports of their own.
//!
//! ```
//! use spag_dist::queue::{Queue, Turn};
//! use spag_dist::{JoinOptions, LaunchEnv};
//!
//! // On its own, a process gets everything itself.
//! let queue = Queue::open(&LaunchEnv::single(), &JoinOptions::default(), "words", 5)?;
//! let mut played: Vec<usize> = Vec::new();
//! while let Turn::Items(items) = queue.next(2)? {
//!     played.extend(items.iter().copied());
//!     queue.done(&items)?;
//! }
//! assert_eq!(played, [0, 1, 2, 3, 4]);
//! # Ok::<(), spag_dist::Error>(())
//! ```

mod board;
mod client;
mod message;
mod service;

use client::Client;
use service::Host;

use crate::{JoinOptions, LaunchEnv, Result};

/// What a rank is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Work on these; at least one.
    Items(Vec<usize>),
    /// Nothing is left to be given out, but this rank has items that it has not reported yet: finish those first.
    FinishYours,
    /// Everything is done, by whomever.
    Finished,
}

/// A rank's end of the queue: the same on rank 0, which keeps the list, as on the others.
///
/// Dropping it on rank 0 waits until the other ranks know that everything is done; ranks that have not come yet are
/// waited for as long as [`JoinOptions::join_timeout`] says, from the opening on.
#[derive(Debug)]
pub struct Queue(Side);

#[derive(Debug)]
enum Side {
    Host(Host),
    Client(Client),
}

impl Queue {
    /// Opens the queue of `items` items, numbered from 0, on rank 0, or joins it on any other rank, waiting until rank 0
    /// has opened it. `task` says what the items stand for, such as a hash of the list: the same text on every rank.
    ///
    /// # Errors
    /// Rank 0 that is not reached, or another task, number of items or ranks, version or token than rank 0's.
    pub fn open(env: &LaunchEnv, options: &JoinOptions, task: &str, items: usize) -> Result<Self> {
        Ok(Self(match env.rank {
            0 => Side::Host(Host::open(env, options, task, items)?),
            _ => Side::Client(Client::open(env, options, task, items)?),
        }))
    }

    /// The next piece, of at most `at_most` items (and at least one). A rank that has nothing to do waits while others
    /// may still return work; one that has reported less than it was given is told to finish that.
    ///
    /// # Errors
    /// Rank 0 that is gone or silent; a rank that rank 0 took for dead; on rank 0, a rank that came with another task.
    pub fn next(&self, at_most: usize) -> Result<Turn> {
        match &self.0 {
            Side::Host(host) => host.next(at_most),
            Side::Client(client) => client.next(at_most),
        }
    }

    /// These items are done, and their results are where a death of this rank does not lose them.
    ///
    /// # Errors
    /// As [`Queue::next`].
    pub fn done(&self, items: &[usize]) -> Result<()> {
        match &self.0 {
            Side::Host(host) => host.done(items),
            Side::Client(client) => client.done(items),
        }
    }
}
