//! How ranks come together: all others to rank 0, then each to its next one.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::Peer;
use super::schedule::Place;
use super::state::Shared;
use crate::net::{
    Channel, Dialled, Door, Hello, JoinOptions, Meeting, NO_SESSION, Reception, Refusal, Service, Session, Token,
    TokenSource, Visit, dial, meeting, new_session, reach, remaining, token_source,
};
use crate::{Error, LaunchEnv, Result};

/// How long one that has proven itself may take to say what it is.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How much longer than rank 0 the others wait, so that its reason reaches them.
const SLACK: Duration = Duration::from_secs(5);
/// How long rank 0 goes on telling newcomers why there will be no run.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often those who wait look whether the group has failed meanwhile.
const GLANCE: Duration = Duration::from_millis(200);
/// How many of those that were not let in are remembered.
const REMEMBERED: usize = 8;

/// What a rank tells rank 0.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    version: String,
    world_size: usize,
    /// [`JoinOptions::start`].
    start: Option<usize>,
    /// Where the previous rank reaches it.
    ring: SocketAddr,
}

/// What rank 0 answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Answer {
    /// All have come: the group, and where each rank listens.
    Welcome { session: Session, ring: Vec<SocketAddr> },
    /// There will be no group.
    Refused(Refusal),
}

/// A rank that knows everybody, before the ring is closed.
pub(crate) struct Joined {
    /// Rank 0: everybody else. The others: rank 0.
    pub(crate) peers: Vec<Peer>,
    session: Session,
    /// Where each rank listens.
    ring: Vec<SocketAddr>,
    /// Where the previous rank is expected.
    reception: Reception,
    token: Token,
    deadline: Instant,
}

/// Meets the other ranks.
///
/// # Errors
/// Ranks that do not come or do not fit, named.
pub(crate) fn meet(env: &LaunchEnv, options: &JoinOptions) -> Result<Joined> {
    let meeting = meeting(env, options)?;
    let source = token_source(env, options)?;
    let deadline = Instant::now() + options.join_timeout;
    match env.rank {
        0 => receive_all(env, options, &meeting, source, deadline),
        _ => report(env, options, &meeting, &source, deadline),
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::System { what, reason: error.to_string() }
}

/// Rank 0: waits for everybody.
fn receive_all(
    env: &LaunchEnv,
    options: &JoinOptions,
    meeting: &Meeting,
    source: TokenSource,
    deadline: Instant,
) -> Result<Joined> {
    // Shut at the end of this function, when all have come.
    let Door { reception, token, address: here, .. } = &Door::open(meeting, source)?;
    let ring = TcpListener::bind((here.ip(), 0)).map_err(system("a listening port for the ring"))?;
    let ring_address = ring.local_addr().map_err(system("a listening port for the ring"))?;
    let own_reception = Reception::open(ring, token.clone()).map_err(system("a thread for the ring's port"))?;

    let mut guests = Guests {
        size: env.world_size,
        version: &options.version,
        start: options.start,
        joined: BTreeMap::new(),
        seen: vec![],
    };
    while guests.joined.len() + 1 < env.world_size {
        let Some(visit) = reception.next(deadline) else {
            let seconds = options.join_timeout.as_secs();
            let refusal = guests.missing(meeting.describe(), seconds);
            return Err(guests.refuse(refusal, reception));
        };
        if let Err(refusal) = guests.let_in(visit) {
            return Err(guests.refuse(refusal, reception));
        }
    }
    let addresses = std::iter::once(ring_address).chain(guests.joined.values().map(|guest| guest.ring));
    let (session, ring) = (new_session()?, addresses.collect::<Vec<_>>());
    let welcome = Answer::Welcome { session, ring: ring.clone() };
    let mut peers = Vec::new();
    for (rank, mut guest) in guests.joined {
        // One that is gone by now is found by the heartbeats, as at any later time.
        let _ = guest.channel.queue(&welcome);
        peers.push(Peer { rank, channel: guest.channel });
    }
    Ok(Joined { peers, session, ring, reception: own_reception, token: token.clone(), deadline: deadline + SLACK })
}

/// A rank that has come to rank 0.
struct Guest {
    channel: Channel,
    ring: SocketAddr,
}

struct Guests<'a> {
    size: usize,
    version: &'a str,
    start: Option<usize>,
    joined: BTreeMap<usize, Guest>,
    /// Those that were not let in, in words.
    seen: Vec<String>,
}

impl Guests<'_> {
    fn let_in(&mut self, visit: Visit) -> Result<(), Refusal> {
        let (hello, stream, from) = match visit {
            Visit::Proven(hello, stream, from) => (hello, stream, from),
            Visit::Refused(hello, from, reason) => {
                let who =
                    hello.map_or("a process".to_owned(), |hello| format!("one that says it is rank {}", hello.rank));
                self.remember(format!("{who} came from {}, but {reason}", from.ip()));
                return Ok(());
            }
        };
        let rank = hello.rank as usize;
        if hello.service != Service::Group {
            self.remember(format!("rank {rank} came from {} for something else ({:?})", from.ip(), hello.service));
            return Ok(());
        }
        let deadline = Instant::now() + REQUEST_TIME;
        let request = Channel::new(stream).and_then(|mut channel| {
            let request = channel.receive_by::<Request>(deadline)?;
            Ok((request, channel))
        });
        // Gone again, or silent: not here yet.
        let Ok((request, mut channel)) = request else { return Ok(()) };
        if let Some(refusal) = self.of_other_start(rank, &request) {
            send_last(&mut channel, &refusal);
            return match request.start < self.start {
                // What is left of an earlier start is no reason to end this one.
                true => {
                    self.remember(format!("{} came from {}", Error::from(refusal), from.ip()));
                    Ok(())
                }
                false => Err(refusal),
            };
        }
        let fits = self.check(rank, &request);
        if let Err(refusal) = fits {
            send_last(&mut channel, &refusal);
            return Err(refusal);
        }
        self.joined.insert(rank, Guest { channel, ring: request.ring });
        Ok(())
    }

    fn of_other_start(&self, rank: usize, request: &Request) -> Option<Refusal> {
        let (first, theirs) = self.start.zip(request.start)?;
        (first != theirs).then_some(Refusal::OtherStart { rank, theirs, first })
    }

    fn check(&mut self, rank: usize, request: &Request) -> Result<(), Refusal> {
        let disagree = |what: &str, theirs: String, first: String| {
            Err(Refusal::Disagree { rank, what: what.to_owned(), theirs, first })
        };
        if request.version != self.version {
            return disagree("the program's version", request.version.clone(), self.version.to_owned());
        }
        if request.world_size != self.size {
            return disagree("the number of ranks", request.world_size.to_string(), self.size.to_string());
        }
        let is_here = |guest: &mut Guest| guest.channel.receive::<Request>().is_ok() && !guest.channel.has_ended();
        if rank == 0 || rank >= self.size || self.joined.get_mut(&rank).is_some_and(is_here) {
            return Err(Refusal::RankTaken { rank });
        }
        Ok(())
    }

    fn remember(&mut self, who: String) {
        if self.seen.len() < REMEMBERED && !self.seen.contains(&who) {
            self.seen.push(who);
        }
    }

    fn missing(&self, address: String, seconds: u64) -> Refusal {
        let ranks = (1..self.size).filter(|rank| !self.joined.contains_key(rank)).collect();
        let seen = self.seen.iter().map(|seen| format!("; {seen}")).collect();
        Refusal::Missing { ranks, address, seconds, seen }
    }

    /// Tells everybody that has come, and for a moment those that still come, why there will be no group.
    fn refuse(mut self, refusal: Refusal, reception: &Reception) -> Error {
        let mut told = 1;
        for guest in self.joined.values_mut() {
            send_last(&mut guest.channel, &refusal);
            told += 1;
        }
        let deadline = Instant::now() + LAST_WORDS;
        // The one that does not fit has been told too, and may be one of those expected.
        while told + 1 < self.size
            && let Some(visit) = reception.next(deadline)
        {
            if let Visit::Proven(_, stream, _) = visit
                && let Ok(mut channel) = Channel::new(stream)
            {
                // Read first: closing a connection with something unread in it would break it before it is read there.
                let _ = channel.receive_by::<Request>(deadline);
                send_last(&mut channel, &refusal);
                told += 1;
            }
        }
        refusal.into()
    }
}

fn send_last(channel: &mut Channel, refusal: &Refusal) {
    // One that is gone needs no answer.
    let _ = channel.send_by(&Answer::Refused(refusal.clone()), Instant::now() + LAST_WORDS);
    channel.close_sending();
}

/// Any other rank: reports to rank 0 and waits until all have. A rank 0 that is left of an earlier start is waited for to
/// be replaced.
fn report(
    env: &LaunchEnv,
    options: &JoinOptions,
    meeting: &Meeting,
    source: &TokenSource,
    deadline: Instant,
) -> Result<Joined> {
    loop {
        match report_once(env, options, meeting, source, deadline) {
            Err(Error::OtherStart { first, .. }) if Some(first) < options.start && !remaining(deadline).is_zero() => {
                std::thread::sleep(GLANCE);
            }
            outcome => return outcome,
        }
    }
}

fn report_once(
    env: &LaunchEnv,
    options: &JoinOptions,
    meeting: &Meeting,
    source: &TokenSource,
    deadline: Instant,
) -> Result<Joined> {
    let hello = Hello { service: Service::Group, rank: env.rank as u32, session: NO_SESSION };
    let (stream, token) = reach(env, options, meeting, source, hello, deadline)?;
    let here = stream.local_addr().map_err(system("the connection to rank 0"))?;
    let ring = TcpListener::bind((here.ip(), 0)).map_err(system("a listening port for the ring"))?;
    let ring_address = ring.local_addr().map_err(system("a listening port for the ring"))?;
    let reception = Reception::open(ring, token.clone()).map_err(system("a thread for the ring's port"))?;
    let lost = |error: io::Error| {
        let reason = match error.kind() {
            io::ErrorKind::TimedOut => "it did not answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "it closed the connection while ranks were joining".to_owned(),
            _ => format!("while ranks were joining: {error}"),
        };
        Error::Lost { rank: 0, reason }
    };
    let deadline = deadline + SLACK;
    let mut channel = Channel::new(stream).map_err(lost)?;
    let request = Request {
        version: options.version.clone(),
        world_size: env.world_size,
        start: options.start,
        ring: ring_address,
    };
    channel.send_by(&request, deadline).map_err(lost)?;
    match channel.receive_by::<Answer>(deadline).map_err(lost)? {
        Answer::Refused(refusal) => Err(refusal.into()),
        Answer::Welcome { session, ring } => {
            let peers = vec![Peer { rank: 0, channel }];
            Ok(Joined { peers, session, ring, reception, token, deadline })
        }
    }
}

impl Joined {
    /// Connects to the next rank and waits for the previous one: both ends of the ring at this rank.
    ///
    /// # Errors
    /// A neighbour that cannot be reached or does not come, or a group that has failed meanwhile.
    pub(crate) fn close_ring(self, shared: &Shared) -> Result<(TcpStream, TcpStream)> {
        let place = shared.place;
        let next = self.reach_next(shared)?;
        while !remaining(self.deadline).is_zero() {
            fail_with_group(shared)?;
            if let Some(Visit::Proven(hello, stream, _)) = self.reception.next(Instant::now() + GLANCE)
                && (hello.service, hello.session) == (Service::Ring, self.session)
                && hello.rank as usize == place.previous()
            {
                return Ok((next, stream));
            }
        }
        Err(Error::Lost { rank: place.previous(), reason: format!("it did not connect to rank {}", place.rank) })
    }

    fn reach_next(&self, shared: &Shared) -> Result<TcpStream> {
        let Place { rank, .. } = shared.place;
        let next = shared.place.next();
        let hello = Hello { service: Service::Ring, rank: rank as u32, session: self.session };
        let mut reason = "rank 0 does not know its address".to_owned();
        while let Some(address) = self.ring.get(next)
            && !remaining(self.deadline).is_zero()
        {
            fail_with_group(shared)?;
            match dial(&[*address], &self.token, hello, self.deadline)? {
                Dialled::Connected(stream) => return Ok(stream),
                Dialled::NotYet(said) => reason = said,
                Dialled::OtherToken => reason = format!("{address}: another program listens there"),
            }
        }
        Err(Error::Lost { rank: next, reason: format!("rank {rank} did not reach it: {reason}") })
    }
}

fn fail_with_group(shared: &Shared) -> Result<()> {
    shared.fault().map_or(Ok(()), |fault| Err(fault.into()))
}

impl Joined {
    /// Takes the control connections out.
    pub(crate) fn take_peers(&mut self) -> Vec<Peer> {
        std::mem::take(&mut self.peers)
    }
}
