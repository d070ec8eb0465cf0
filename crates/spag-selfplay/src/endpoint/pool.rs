//! The servers of an endpoint, shared by all threads of a player.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::config::EndpointConfig;
use super::rate_limiter::{RateLimiter, Stopped};
use super::scheduler::{Scheduler, Standing};
use super::transport::Transport;
use crate::player_spec::EndpointSpec;

/// The longest wait for a free slot, after which pauses and rests are looked at again.
const WAIT: Duration = Duration::from_millis(50);

/// A server with its own connections and limits.
pub(super) struct Server {
    pub(super) url: String,
    pub(super) transport: Transport,
    pub(super) limiter: RateLimiter,
}

/// All servers of an endpoint.
pub(super) struct Pool {
    pub(super) servers: Vec<Server>,
    state: Mutex<State>,
    changed: Condvar,
    report: fn(&str),
}

struct State {
    scheduler: Scheduler,
    stopped: bool,
}

/// A turn that is open on a server, until this is dropped.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    pub(super) index: usize,
    pub(super) server: &'a Server,
    /// The answers of the server before this turn.
    pub(super) answers: u64,
}

impl Pool {
    pub(super) fn new(spec: &EndpointSpec, config: &EndpointConfig) -> Self {
        let server = |url: &String| Server {
            url: url.clone(),
            transport: Transport::new(url, spec.style, config),
            limiter: RateLimiter::new(config.requests_per_minute),
        };
        let servers: Vec<Server> = spec.servers.urls().iter().map(server).collect();
        let scheduler = Scheduler::new(servers.len(), config.in_flight, config.retry.rest);
        let state = Mutex::new(State { scheduler, stopped: false });
        Self { servers, state, changed: Condvar::new(), report: config.report }
    }

    /// Opens a turn of a game on a server; waits for one with a free slot. `tries` are those that the turn has had on each
    /// server, of which it must not have had `most` on all.
    pub(super) fn lease(&self, game: usize, tries: &[u32], most: u32) -> Result<Lease<'_>, Stopped> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            let standing = |(server, tries): (&Server, &u32)| match () {
                () if *tries >= most => Standing::Spent,
                () if server.limiter.is_paused() => Standing::Paused,
                () => Standing::Open,
            };
            let standings: Vec<Standing> = self.servers.iter().zip(tries).map(standing).collect();
            let opened = state.scheduler.open(game, &standings, Instant::now());
            if let Some((index, server)) = opened.and_then(|index| Some((index, self.servers.get(index)?))) {
                return Ok(Lease { pool: self, index, server, answers: state.scheduler.answers(index) });
            }
            state = self.changed.wait_timeout(state, WAIT).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes all current and later waits return [`Stopped`].
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
        self.servers.iter().for_each(|server| server.limiter.stop());
    }

    /// The state is valid even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// The server has answered this turn.
    pub(super) fn answered(&self) {
        if self.pool.lock().scheduler.answered(self.index) {
            (self.pool.report)(&format!("{} answers again", self.server.url));
        }
    }

    /// Whether the server has answered any turn since it had given `answers`.
    pub(super) fn has_answered_since(&self, answers: u64) -> bool {
        self.pool.lock().scheduler.answers(self.index) > answers
    }

    /// The server has failed; a single server is used all the same.
    pub(super) fn failed(&self, reason: &str) {
        let is_pool = self.pool.servers.len() > 1;
        if is_pool && self.pool.lock().scheduler.failed(self.index, Instant::now()) {
            (self.pool.report)(&format!("{reason}; its turns go to the other URLs of the pool"));
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.lock().scheduler.close(self.index);
        self.pool.changed.notify_all();
    }
}
