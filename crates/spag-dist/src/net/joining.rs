//! The join protocol between a rank and rank 0, for groups and queues.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::peers::lost;
use super::{Channel, Hello, JoinOptions, Session};
use crate::hosts::HostPlace;
use crate::{Error, LaunchEnv, Result};

/// Time limit for an authenticated connection to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for sending an error to a rank.
const ERROR_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings that all ranks of a group or queue must share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Membership {
    world_size: usize,
    /// Where the rank is; not compared.
    pub(crate) place: HostPlace,
    /// Compared if both sides have one.
    pub(crate) restart_count: Option<usize>,
    /// Names and values.
    facts: Vec<(String, String)>,
}

/// The first message of a rank.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    membership: Membership,
    /// The address on which this rank accepts the previous rank of a ring.
    ring: Option<SocketAddr>,
}

/// Rank 0's reply once all ranks that it waits for have joined.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) session: Session,
    /// The address on which each rank accepts the previous rank of a ring.
    pub(crate) ring: Vec<Option<SocketAddr>>,
    /// The place of each rank.
    pub(crate) places: Vec<HostPlace>,
}

/// A rank that has asked rank 0 to join.
pub(crate) struct Applicant {
    pub(crate) rank: usize,
    pub(crate) channel: Channel,
    pub(crate) ring: Option<SocketAddr>,
    pub(crate) membership: Membership,
}

impl Membership {
    /// `more` are (name, value) pairs compared in addition to the version and the world size.
    pub(crate) fn new(env: &LaunchEnv, options: &JoinOptions, more: &[(&str, String)]) -> Self {
        let common =
            [("the program's version", options.version.clone()), ("the number of ranks", env.world_size.to_string())];
        let facts = common.iter().chain(more).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Self { world_size: env.world_size, place: HostPlace::of(env), restart_count: None, facts }
    }

    /// Asks rank 0 to join, and waits for its answer.
    ///
    /// # Errors
    /// The error returned by rank 0, or a lost connection.
    pub(crate) fn join(
        self,
        stream: TcpStream,
        ring: Option<SocketAddr>,
        deadline: Instant,
    ) -> Result<(Channel, Welcome)> {
        let mut channel = Channel::new(stream).map_err(lost(0))?;
        channel.send_by(&Request { membership: self, ring }, deadline).map_err(lost(0))?;
        let welcome = channel.receive_by::<Result<Welcome>>(deadline).map_err(lost(0))??;
        Ok((channel, welcome))
    }

    /// Checks whether an applicant may join. `is_connected`: another process is connected with its rank.
    ///
    /// # Errors
    /// [`Error::RestartMismatch`], [`Error::Disagree`] or [`Error::DuplicateRank`].
    pub(crate) fn check(&self, applicant: &Applicant, is_connected: bool) -> Result<()> {
        let Applicant { rank, membership: theirs, .. } = applicant;
        let rank = *rank;
        if let Some((first, theirs)) = self.restart_count.zip(theirs.restart_count)
            && first != theirs
        {
            return Err(Error::RestartMismatch { rank, theirs, first });
        }
        let nothing = (String::new(), "nothing".to_owned());
        for (at, (what, first)) in self.facts.iter().enumerate() {
            let (_, theirs) = theirs.facts.get(at).unwrap_or(&nothing);
            if theirs != first {
                let (what, theirs, first) = (what.clone(), theirs.clone(), first.clone());
                return Err(Error::Disagree { rank, what, theirs, first });
            }
        }
        if rank == 0 || rank >= self.world_size || is_connected {
            return Err(Error::DuplicateRank { rank });
        }
        Ok(())
    }
}

impl Applicant {
    /// Receives the request of a connection. `None` if it does not arrive; the rank may connect again.
    pub(crate) fn receive(hello: Hello, stream: TcpStream) -> Option<Self> {
        let mut channel = Channel::new(stream).ok()?;
        let Request { membership, ring } = channel.receive_by(Instant::now() + REQUEST_TIMEOUT).ok()?;
        Some(Self { rank: hello.rank as usize, channel, ring, membership })
    }

    /// Queues the reply that it has joined.
    pub(crate) fn welcome(mut self, welcome: Welcome) -> Channel {
        // Missing heartbeats reveal a rank lost in the meantime.
        let _ = self.channel.queue(&Ok::<_, Error>(welcome));
        self.channel
    }

    /// Sends an error as the last message.
    pub(crate) fn refuse(&mut self, error: &Error) {
        // Fails only if the rank is gone.
        let _ = self.channel.send_by(&Err::<Welcome, _>(error), Instant::now() + ERROR_TIMEOUT);
        self.channel.close_sending();
    }
}
