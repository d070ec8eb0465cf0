//! A work queue: rank 0 assigns the items of a list to ranks in small pieces.
//!
//! A rank requests a piece, works, reports which items are done, and requests the next. If a rank dies or falls
//! silent, its unfinished items are reassigned, so every item is done at least once as long as rank 0 lives. An item
//! may be done twice if a rank was declared dead too early, so results must be keyed by item. Pieces shrink towards
//! the end, so that all ranks finish at about the same time.
//!
//! The queue has its own connections, since a process group fails with any of its ranks and a queue must not.
//! [`Queue::open`] uses the port and token of [`join`](crate::join), so it cannot coexist with a group unless the ports
//! differ; [`Queue::open_beside`] uses another port.
//!
//! ```
//! use spag_dist::queue::{Assignment, Queue};
//! use spag_dist::{JoinOptions, LaunchEnv};
//!
//! // A single process gets all items itself.
//! let queue = Queue::open(&LaunchEnv::single(), &JoinOptions::default(), "words", 5)?;
//! let mut played: Vec<usize> = Vec::new();
//! while let Assignment::Items(items) = queue.next(2)? {
//!     played.extend(items.iter().copied());
//!     queue.done(&items)?;
//! }
//! assert_eq!(played, [0, 1, 2, 3, 4]);
//! # Ok::<(), spag_dist::Error>(())
//! ```

mod client;
mod server;
mod tracker;

use serde::{Deserialize, Serialize};

use crate::net::{Endpoint, Membership, RendezvousListener};
use crate::{Error, JoinOptions, LaunchEnv, PortChoice, ProcessGroup, Result, broadcast_text};
use client::Client;
use server::Server;

/// Maximum items per message.
const MAX_ITEMS: usize = 4096;

/// A message to rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Request {
    Heartbeat,
    /// Asks for at most this many items.
    Next {
        at_most: usize,
    },
    Done {
        items: Vec<usize>,
    },
}

/// A message from rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Reply {
    /// The queue has failed.
    Failed(Error),
    Heartbeat,
    Assigned(Assignment),
    /// This rank was declared dead, and its items are reassigned.
    Expired {
        reason: String,
    },
}

/// The next step of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assignment {
    /// Work on these items; at least one.
    Items(Vec<usize>),
    /// No items are left to assign, but this rank holds unreported ones and must finish those first.
    FinishHeld,
    /// All items are done.
    Finished,
}

/// A rank's end of the queue. Rank 0 holds the list.
///
/// Dropping it on rank 0 waits until the other ranks know that all items are done; for ranks that have not connected yet,
/// at most [`JoinOptions::join_timeout`] from the opening.
#[derive(Debug)]
pub struct Queue(Side);

#[derive(Debug)]
enum Side {
    Server(Server),
    Client(Client),
}

impl Queue {
    /// Opens a queue of `items` items, numbered from 0, on rank 0; any other rank connects to it and waits until it is
    /// open. `task` describes the items, such as a hash of the list, and must be the same on every rank.
    ///
    /// # Errors
    /// Rank 0 cannot be reached, or has a different task, number of items, world size, version or token.
    pub fn open(env: &LaunchEnv, options: &JoinOptions, task: &str, items: usize) -> Result<Self> {
        let membership = membership(env, options, task, items);
        if env.rank != 0 {
            return Ok(Self(Side::Client(Client::open(env, options, membership)?)));
        }
        let listener = match env.world_size {
            1 => None,
            _ => Some(RendezvousListener::bind(env, options, &Endpoint::new(env, options)?)?),
        };
        Ok(Self(Side::Server(Server::start(env, options, listener, membership, items)?)))
    }

    /// [`Queue::open`] while `group` is in use: rank 0 binds any free port and broadcasts it over the group.
    ///
    /// # Errors
    /// As [`Queue::open`], and errors of the collective.
    pub fn open_beside(
        group: &dyn ProcessGroup,
        env: &LaunchEnv,
        options: &JoinOptions,
        task: &str,
        items: usize,
    ) -> Result<Self> {
        if env.world_size == 1 {
            return Self::open(env, options, task, items);
        }
        if env.rank != 0 {
            let value = broadcast_text(group, "")?;
            let Ok(port) = value.parse() else { return Err(Error::NotAPort { name: "the queue's port", value }) };
            return Self::open(env, &JoinOptions { port: PortChoice::Fixed(port), ..options.clone() }, task, items);
        }
        let mut endpoint = Endpoint::new(env, options)?;
        endpoint.port = 0;
        let listener = RendezvousListener::bind(env, options, &endpoint)?;
        broadcast_text(group, &listener.address.port().to_string())?;
        let membership = membership(env, options, task, items);
        Ok(Self(Side::Server(Server::start(env, options, Some(listener), membership, items)?)))
    }

    /// The next piece, of 1 to `at_most` items. A rank without items waits while others may still return some.
    ///
    /// # Errors
    /// Rank 0 is lost; rank 0 declared this rank dead; or, on rank 0, a rank joined with another task.
    pub fn next(&self, at_most: usize) -> Result<Assignment> {
        match &self.0 {
            Side::Server(server) => server.next(at_most),
            Side::Client(client) => client.next(at_most),
        }
    }

    /// On rank 0, the ranks that have hung so far; their items are reassigned.
    pub fn lost(&self) -> Vec<Error> {
        match &self.0 {
            Side::Server(server) => server.lost(),
            Side::Client(_) => Vec::new(),
        }
    }

    /// Closes the queue like a drop. On rank 0, returns the ranks that have hung or never joined; ranks whose process has
    /// exited are left to the launcher, which detects them.
    pub fn close(self) -> Vec<Error> {
        match self.0 {
            Side::Server(mut server) => server.close(),
            Side::Client(_) => Vec::new(),
        }
    }

    /// Reports that these items are done. Store their results first, so that they survive the death of this rank.
    ///
    /// # Errors
    /// As [`Queue::next`].
    pub fn done(&self, items: &[usize]) -> Result<()> {
        match &self.0 {
            Side::Server(server) => server.done(items),
            Side::Client(client) => client.done(items),
        }
    }
}

/// The settings that all ranks of a queue must share.
fn membership(env: &LaunchEnv, options: &JoinOptions, task: &str, items: usize) -> Membership {
    Membership::new(env, options, &[("the work", task.to_owned()), ("the number of items", items.to_string())])
}
