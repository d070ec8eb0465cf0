//! Rendezvous: all ranks connect to rank 0, then each to the next one.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::Peer;
use super::schedule::RingPosition;
use super::state::GroupState;
use crate::net::{
    Acceptor, Channel, Connection, Endpoint, Hello, Incoming, JoinOptions, NO_SESSION, RendezvousListener, Service,
    Session, Token, connect, connect_to_rank0, new_session, remaining,
};
use crate::{Error, LaunchEnv, Result};

/// How long an authenticated connection may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How much longer than rank 0 the others wait, so that they receive its error.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(5);
/// How long rank 0 sends its error to ranks that connect after it has failed.
const ERROR_TIMEOUT: Duration = Duration::from_secs(2);
/// How often waiting ranks check whether the group has failed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How many rejected connections an error lists.
const MAX_REJECTED: usize = 8;

#[derive(Debug, Serialize, Deserialize)]
struct JoinRequest {
    version: String,
    world_size: usize,
    restart_count: Option<usize>,
    /// Where this rank listens for the previous one.
    ring: SocketAddr,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum JoinReply {
    /// All ranks have joined; `ring` is where each of them listens.
    Joined { session: Session, ring: Vec<SocketAddr> },
    /// There will be no group.
    Failed(Error),
}

/// A rank after the rendezvous, before it is connected to its neighbours.
pub(crate) struct JoinedRank {
    /// Rank 0: all other ranks. The others: rank 0.
    pub(crate) peers: Vec<Peer>,
    session: Session,
    /// Where each rank listens.
    ring: Vec<SocketAddr>,
    /// For the previous rank.
    acceptor: Acceptor,
    token: Token,
    deadline: Instant,
}

/// Waits until all ranks have joined.
///
/// # Errors
/// Ranks that do not join or have other settings, named.
pub(crate) fn join_ranks(env: &LaunchEnv, options: &JoinOptions) -> Result<JoinedRank> {
    let deadline = Instant::now() + options.join_timeout;
    if env.rank == 0 { accept_ranks(env, options, deadline) } else { join_rank0(env, options, deadline) }
}

/// Listens for the previous rank.
fn listen_for_ring(ip: IpAddr, token: &Token) -> Result<(SocketAddr, Acceptor)> {
    let listener = TcpListener::bind((ip, 0)).map_err(Error::system("a listening port for the ring"))?;
    let address = listener.local_addr().map_err(Error::system("a listening port for the ring"))?;
    let acceptor = Acceptor::start(listener, token.clone()).map_err(Error::system("a thread for the ring's port"))?;
    Ok((address, acceptor))
}

fn accept_ranks(env: &LaunchEnv, options: &JoinOptions, deadline: Instant) -> Result<JoinedRank> {
    let endpoint = Endpoint::new(env, options)?;
    // Closed when this function returns.
    let listener = RendezvousListener::bind(env, options, &endpoint)?;
    let (ring_address, own_acceptor) = listen_for_ring(listener.address.ip(), &listener.token)?;

    let mut ranks = AcceptedRanks { size: env.world_size, options, joined: BTreeMap::new(), rejected: vec![] };
    while ranks.joined.len() + 1 < env.world_size {
        let accepted = match listener.acceptor.next(deadline) {
            Some(incoming) => ranks.accept(incoming),
            None => Err(ranks.missing(&endpoint)),
        };
        accepted.map_err(|error| ranks.fail(error, &listener.acceptor))?;
    }
    let addresses = std::iter::once(ring_address).chain(ranks.joined.values().map(|rank| rank.ring));
    let (session, ring) = (new_session()?, addresses.collect::<Vec<_>>());
    let reply = JoinReply::Joined { session, ring: ring.clone() };
    let mut peers = Vec::new();
    for (rank, mut accepted) in ranks.joined {
        // Missing heartbeats reveal a rank that is lost by now.
        let _ = accepted.channel.queue(&reply);
        peers.push(Peer::new(rank, accepted.channel));
    }
    let deadline = deadline + EXTRA_TIMEOUT;
    Ok(JoinedRank { peers, session, ring, acceptor: own_acceptor, token: listener.token.clone(), deadline })
}

struct AcceptedRank {
    channel: Channel,
    ring: SocketAddr,
}

struct AcceptedRanks<'a> {
    size: usize,
    options: &'a JoinOptions,
    joined: BTreeMap<usize, AcceptedRank>,
    /// Rejected connections, as text.
    rejected: Vec<String>,
}

impl AcceptedRanks<'_> {
    /// # Errors
    /// A mismatch that ends the run.
    fn accept(&mut self, incoming: Incoming) -> Result<()> {
        let (hello, stream, from) = match incoming {
            Incoming::Accepted(hello, stream, from) => (hello, stream, from),
            Incoming::Rejected(hello, from, reason) => {
                let who = hello.map_or("a process".to_owned(), |hello| format!("a process as rank {}", hello.rank));
                self.reject(format!("{who} connected from {}, but {reason}", from.ip()));
                return Ok(());
            }
        };
        let rank = hello.rank as usize;
        if hello.service != Service::Group {
            self.reject(format!("rank {rank} connected from {} for another service ({:?})", from.ip(), hello.service));
            return Ok(());
        }
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let request = Channel::new(stream).and_then(|mut channel| {
            let request = channel.receive_by::<JoinRequest>(deadline)?;
            Ok((request, channel))
        });
        // A rank that has disconnected or is silent may connect again.
        let Ok((request, mut channel)) = request else { return Ok(()) };
        if let Err(error) = self.check(rank, &request) {
            send_error(&mut channel, &error);
            // A process that is left of an earlier start does not end this one.
            if matches!(error, Error::RestartMismatch { theirs, first, .. } if theirs < first) {
                self.reject(format!("{error} ({})", from.ip()));
                return Ok(());
            }
            return Err(error);
        }
        self.joined.insert(rank, AcceptedRank { channel, ring: request.ring });
        Ok(())
    }

    fn check(&mut self, rank: usize, request: &JoinRequest) -> Result<()> {
        if let Some((first, theirs)) = self.options.restart_count.zip(request.restart_count)
            && first != theirs
        {
            return Err(Error::RestartMismatch { rank, theirs, first });
        }
        let disagree = |what: &str, theirs: String, first: String| {
            Err(Error::Disagree { rank, what: what.to_owned(), theirs, first })
        };
        if request.version != self.options.version {
            return disagree("the program's version", request.version.clone(), self.options.version.clone());
        }
        if request.world_size != self.size {
            return disagree("the number of ranks", request.world_size.to_string(), self.size.to_string());
        }
        let is_connected =
            |rank: &mut AcceptedRank| rank.channel.receive::<JoinRequest>().is_ok() && !rank.channel.has_ended();
        if rank == 0 || rank >= self.size || self.joined.get_mut(&rank).is_some_and(is_connected) {
            return Err(Error::DuplicateRank { rank });
        }
        Ok(())
    }

    fn reject(&mut self, reason: String) {
        if self.rejected.len() < MAX_REJECTED && !self.rejected.contains(&reason) {
            self.rejected.push(reason);
        }
    }

    fn missing(&self, endpoint: &Endpoint) -> Error {
        Error::MissingRanks {
            ranks: (1..self.size).filter(|rank| !self.joined.contains_key(rank)).collect(),
            address: endpoint.to_string(),
            seconds: self.options.join_timeout.as_secs(),
            rejected: self.rejected.iter().map(|reason| format!("; {reason}")).collect(),
        }
    }

    /// Sends the error to all ranks that have joined, and for a moment to those that still connect.
    fn fail(&mut self, error: Error, acceptor: &Acceptor) -> Error {
        self.joined.values_mut().for_each(|rank| send_error(&mut rank.channel, &error));
        let mut informed = 1 + self.joined.len();
        let deadline = Instant::now() + ERROR_TIMEOUT;
        // The rank that caused a mismatch is informed too, and may be one of those expected.
        while informed + 1 < self.size
            && let Some(incoming) = acceptor.next(deadline)
        {
            if let Incoming::Accepted(_, stream, _) = incoming
                && let Ok(mut channel) = Channel::new(stream)
            {
                // Closing a connection with unread data would discard the error.
                let _ = channel.receive_by::<JoinRequest>(deadline);
                send_error(&mut channel, &error);
                informed += 1;
            }
        }
        error
    }
}

fn send_error(channel: &mut Channel, error: &Error) {
    // Fails only if the rank is gone.
    let _ = channel.send_by(&JoinReply::Failed(error.clone()), Instant::now() + ERROR_TIMEOUT);
    channel.close_sending();
}

/// Joins as any rank but 0. A rank 0 that is left of an earlier start is tried again until it is replaced.
fn join_rank0(env: &LaunchEnv, options: &JoinOptions, deadline: Instant) -> Result<JoinedRank> {
    loop {
        match join_rank0_once(env, options, deadline) {
            Err(Error::RestartMismatch { first, .. })
                if Some(first) < options.restart_count && !remaining(deadline).is_zero() =>
            {
                std::thread::sleep(POLL_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

fn join_rank0_once(env: &LaunchEnv, options: &JoinOptions, deadline: Instant) -> Result<JoinedRank> {
    let hello = Hello { service: Service::Group, rank: env.rank as u32, session: NO_SESSION };
    let (stream, token) = connect_to_rank0(env, options, hello, deadline)?;
    let here = stream.local_addr().map_err(Error::system("the connection to rank 0"))?;
    let (ring, acceptor) = listen_for_ring(here.ip(), &token)?;
    let lost = |error: io::Error| {
        let reason = match error.kind() {
            io::ErrorKind::TimedOut => "it did not answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "it closed the connection while ranks were joining".to_owned(),
            _ => format!("while ranks were joining: {error}"),
        };
        Error::Lost { rank: 0, reason }
    };
    let deadline = deadline + EXTRA_TIMEOUT;
    let mut channel = Channel::new(stream).map_err(lost)?;
    let request = JoinRequest {
        version: options.version.clone(),
        world_size: env.world_size,
        restart_count: options.restart_count,
        ring,
    };
    channel.send_by(&request, deadline).map_err(lost)?;
    match channel.receive_by::<JoinReply>(deadline).map_err(lost)? {
        JoinReply::Failed(error) => Err(error),
        JoinReply::Joined { session, ring } => {
            Ok(JoinedRank { peers: vec![Peer::new(0, channel)], session, ring, acceptor, token, deadline })
        }
    }
}

impl JoinedRank {
    /// Connects to the next rank and waits for the previous one; returns both connections.
    ///
    /// # Errors
    /// A neighbour that cannot be reached or does not connect, or a group that has failed meanwhile.
    pub(crate) fn connect_ring(self, state: &GroupState) -> Result<(TcpStream, TcpStream)> {
        let position = state.position;
        let next = self.connect_next(state)?;
        while !remaining(self.deadline).is_zero() {
            state.check()?;
            if let Some(Incoming::Accepted(hello, stream, _)) = self.acceptor.next(Instant::now() + POLL_INTERVAL)
                && (hello.service, hello.session) == (Service::Ring, self.session)
                && hello.rank as usize == position.previous()
            {
                return Ok((next, stream));
            }
        }
        Err(Error::lost(position.previous(), format!("it did not connect to rank {}", position.rank)))
    }

    fn connect_next(&self, state: &GroupState) -> Result<TcpStream> {
        let RingPosition { rank, .. } = state.position;
        let next = state.position.next();
        let hello = Hello { service: Service::Ring, rank: rank as u32, session: self.session };
        let mut reason = "rank 0 does not have its address".to_owned();
        while let Some(address) = self.ring.get(next)
            && !remaining(self.deadline).is_zero()
        {
            state.check()?;
            match connect(&[*address], &self.token, hello, self.deadline)? {
                Connection::Ready(stream) => return Ok(stream),
                Connection::Failed(error) => reason = error,
                Connection::TokenMismatch => reason = format!("{address}: another program listens there"),
            }
        }
        Err(Error::lost(next, format!("rank {rank} did not reach it: {reason}")))
    }
}
