//! Rendezvous: all ranks connect to rank 0, then each to the next rank.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::ring::Ring;
use super::state::GroupState;
use crate::hosts::{HostPlace, HostPlaces, Members, Scope};
use crate::net::{
    Acceptor, Applicant, Connection, Endpoint, Hello, Incoming, JoinOptions, Membership, NO_SESSION, Peers,
    RendezvousListener, Service, Token, Welcome, connect, connect_to_rank0, new_session, remaining,
};
use crate::{Error, LaunchEnv, Result};

/// Time that the other ranks wait longer than rank 0, so that they receive its error.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that rank 0 sends its error to ranks that connect after it has failed.
const ERROR_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which waiting ranks check whether the group has failed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum rejected connections listed in an error.
const MAX_REJECTED: usize = 8;

/// A rank after the rendezvous, not yet connected to its neighbours.
pub(crate) struct JoinedRank {
    /// Rank 0: all other ranks. The others: rank 0.
    pub(crate) peers: Peers,
    welcome: Welcome,
    /// Accepts the previous rank.
    acceptor: Acceptor,
    token: Token,
    deadline: Instant,
}

/// Waits until all ranks have joined.
///
/// # Errors
/// Ranks do not join or have mismatched settings; the error names them.
pub(crate) fn join_ranks(env: &LaunchEnv, options: &JoinOptions) -> Result<JoinedRank> {
    let deadline = Instant::now() + options.join_timeout;
    let mut membership = Membership::new(env, options, &[]);
    membership.restart_count = options.restart_count;
    if env.rank == 0 {
        accept_ranks(env, options, membership, deadline)
    } else {
        join_rank0(env, options, &membership, deadline)
    }
}

/// Listens for the previous rank.
fn listen_for_ring(ip: IpAddr, token: &Token) -> Result<(SocketAddr, Acceptor)> {
    let system = Error::system("a listening port for the ring");
    let listener = TcpListener::bind((ip, 0)).map_err(&system)?;
    Ok((listener.local_addr().map_err(&system)?, Acceptor::start(listener, token.clone())?))
}

fn accept_ranks(
    env: &LaunchEnv,
    options: &JoinOptions,
    membership: Membership,
    deadline: Instant,
) -> Result<JoinedRank> {
    let endpoint = Endpoint::new(env, options)?;
    // Closed when this function returns.
    let listener = RendezvousListener::bind(env, options, &endpoint)?;
    let (ring_address, own_acceptor) = listen_for_ring(listener.address.ip(), &listener.token)?;

    let mut ranks = AcceptedRanks { size: env.world_size, membership, joined: BTreeMap::new(), rejected: vec![] };
    while ranks.joined.len() + 1 < env.world_size {
        let accepted = match listener.acceptor.next(deadline) {
            Some(incoming) => ranks.accept(incoming),
            None => Err(ranks.missing(&endpoint, options.join_timeout)),
        };
        accepted.map_err(|error| ranks.fail(error, &listener.acceptor))?;
    }
    let ring = std::iter::once(Some(ring_address)).chain(ranks.joined.values().map(|rank| rank.ring)).collect();
    let joined = ranks.joined.values().map(|rank| rank.membership.place);
    let places = std::iter::once(HostPlace::of(env)).chain(joined).collect();
    let welcome = Welcome { session: new_session()?, ring, places };
    let mut peers = Peers::new(options);
    for (rank, applicant) in ranks.joined {
        peers.add(rank, applicant.welcome(welcome.clone()));
    }
    let deadline = deadline + EXTRA_TIMEOUT;
    Ok(JoinedRank { peers, welcome, acceptor: own_acceptor, token: listener.token.clone(), deadline })
}

struct AcceptedRanks {
    size: usize,
    membership: Membership,
    joined: BTreeMap<usize, Applicant>,
    /// Rejected connections, as text.
    rejected: Vec<String>,
}

impl AcceptedRanks {
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
        let Hello { rank, service, .. } = hello;
        if service != Service::Group {
            self.reject(format!("rank {rank} connected from {} for another service ({service:?})", from.ip()));
            return Ok(());
        }
        let Some(mut applicant) = Applicant::receive(hello, stream) else { return Ok(()) };
        let before = self.joined.get_mut(&applicant.rank);
        let is_connected = before.is_some_and(|before| before.channel.is_open());
        if let Err(error) = self.membership.check(&applicant, is_connected) {
            applicant.refuse(&error);
            // A process left over from an earlier start does not end this one.
            if matches!(error, Error::RestartMismatch { theirs, first, .. } if theirs < first) {
                self.reject(format!("{error} ({})", from.ip()));
                return Ok(());
            }
            return Err(error);
        }
        self.joined.insert(applicant.rank, applicant);
        Ok(())
    }

    fn reject(&mut self, reason: String) {
        if self.rejected.len() < MAX_REJECTED && !self.rejected.contains(&reason) {
            self.rejected.push(reason);
        }
    }

    fn missing(&self, endpoint: &Endpoint, timeout: Duration) -> Error {
        Error::MissingRanks {
            ranks: (1..self.size).filter(|rank| !self.joined.contains_key(rank)).collect(),
            address: endpoint.to_string(),
            seconds: timeout.as_secs(),
            rejected: self.rejected.iter().map(|reason| format!("; {reason}")).collect(),
        }
    }

    /// Sends the error to all ranks that have joined, and for a short time to those that still connect.
    fn fail(&mut self, error: Error, acceptor: &Acceptor) -> Error {
        self.joined.values_mut().for_each(|rank| rank.refuse(&error));
        let mut informed = 1 + self.joined.len();
        let deadline = Instant::now() + ERROR_TIMEOUT;
        // The mismatched rank is informed too, and may be one of those expected.
        while informed + 1 < self.size
            && let Some(incoming) = acceptor.next(deadline)
        {
            if let Incoming::Accepted(hello, stream, _) = incoming
                && let Some(mut applicant) = Applicant::receive(hello, stream)
            {
                applicant.refuse(&error);
                informed += 1;
            }
        }
        error
    }
}

/// Joins as any rank but 0. If a rank 0 of an earlier start answers, retries until it is replaced.
fn join_rank0(
    env: &LaunchEnv,
    options: &JoinOptions,
    membership: &Membership,
    deadline: Instant,
) -> Result<JoinedRank> {
    loop {
        match join_rank0_once(env, options, membership.clone(), deadline) {
            Err(Error::RestartMismatch { first, .. })
                if Some(first) < options.restart_count && !remaining(deadline).is_zero() =>
            {
                std::thread::sleep(POLL_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

fn join_rank0_once(
    env: &LaunchEnv,
    options: &JoinOptions,
    membership: Membership,
    deadline: Instant,
) -> Result<JoinedRank> {
    let hello = Hello { service: Service::Group, rank: env.rank as u32, session: NO_SESSION };
    let (stream, token) = connect_to_rank0(env, options, hello, deadline)?;
    let here = stream.local_addr().map_err(Error::system("the connection to rank 0"))?;
    let (ring, acceptor) = listen_for_ring(here.ip(), &token)?;
    let deadline = deadline + EXTRA_TIMEOUT;
    let (channel, welcome) = membership.join(stream, Some(ring), deadline)?;
    let mut peers = Peers::new(options);
    peers.add(0, channel);
    Ok(JoinedRank { peers, welcome, acceptor, token, deadline })
}

impl JoinedRank {
    /// The hosts of all ranks.
    pub(crate) fn places(&self) -> HostPlaces {
        HostPlaces::new(self.welcome.places.clone())
    }

    /// Connects the rings to their next ranks and waits for their previous ones.
    ///
    /// # Errors
    /// A neighbour cannot be reached or does not connect, or the group has failed.
    pub(crate) fn connect_rings(self, rings: &[Members], state: &GroupState) -> Result<Vec<Ring>> {
        let next: Vec<TcpStream> = rings.iter().map(|ring| self.connect_next(ring, state)).collect::<Result<_>>()?;
        let mut previous: Vec<Option<TcpStream>> = rings.iter().map(|_| None).collect();
        while let Some(missing) = previous.iter().position(Option::is_none) {
            state.check()?;
            if remaining(self.deadline).is_zero() {
                let reason = format!("it did not connect to rank {}", state.position.rank);
                return Err(Error::lost(rings[missing].previous(), reason));
            }
            if let Some(Incoming::Accepted(hello, stream, _)) = self.acceptor.next(Instant::now() + POLL_INTERVAL)
                && hello.session == self.welcome.session
                && let Some(at) = rings
                    .iter()
                    .position(|ring| (hello.service, hello.rank as usize) == (service(ring.scope), ring.previous()))
            {
                previous[at] = Some(stream);
            }
        }
        let streams = next.into_iter().zip(previous.into_iter().flatten());
        let connected =
            rings.iter().zip(streams).map(|(ring, (next, previous))| Ring::new(ring.clone(), next, previous));
        connected.collect::<std::io::Result<_>>().map_err(Error::system("the ring"))
    }

    fn connect_next(&self, ring: &Members, state: &GroupState) -> Result<TcpStream> {
        let (rank, next) = (state.position.rank, ring.next());
        let hello = Hello { service: service(ring.scope), rank: rank as u32, session: self.welcome.session };
        let mut reason = "rank 0 does not have its address".to_owned();
        while let Some(Some(address)) = self.welcome.ring.get(next)
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

/// The purpose of a ring's connections.
fn service(scope: Scope) -> Service {
    match scope {
        Scope::World => Service::Ring,
        Scope::WithinHost => Service::RingWithinHost,
        Scope::BetweenHosts => Service::RingBetweenHosts,
    }
}
