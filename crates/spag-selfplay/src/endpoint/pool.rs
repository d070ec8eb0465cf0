//! The servers of an endpoint, shared by all threads of a player.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::config::EndpointConfig;
use super::rate_limiter::RateLimit;
use super::scheduler::{Scheduler, Standing};
use super::spec::EndpointSpec;
use super::transport::Transport;

/// The longest wait for a free slot, after which pauses and rests are looked at again.
const WAIT: Duration = Duration::from_millis(50);

/// The player was dropped.
#[derive(Debug)]
pub(super) struct Stopped;

/// A server with its own connections.
pub(super) struct Server {
    pub(super) url: String,
    pub(super) transport: Transport,
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
    /// By server.
    limits: Vec<RateLimit>,
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
        let server = |url: &String| Server { url: url.clone(), transport: Transport::new(url, spec, config) };
        let servers: Vec<Server> = spec.servers.urls().iter().map(server).collect();
        let scheduler = Scheduler::new(servers.len(), config.in_flight, config.retry.rest);
        let limits = servers.iter().map(|_| RateLimit::new(config.requests_per_minute)).collect();
        let state = Mutex::new(State { scheduler, limits, stopped: false });
        Self { servers, state, changed: Condvar::new(), report: config.report }
    }

    /// Opens a turn of a game on a server; waits for one with a free slot. `tries` are those that the turn has had on each
    /// server, of which it must not have had `most` on all.
    pub(super) fn lease(&self, number: usize, tries: &[u32], most: u32) -> Result<Lease<'_>, Stopped> {
        self.wait(|State { scheduler, limits, .. }, now| {
            let standing = |(limit, tries): (&RateLimit, &u32)| match () {
                () if *tries >= most => Standing::Spent,
                () if limit.is_paused(now) => Standing::Paused,
                () => Standing::Open,
            };
            let standings: Vec<Standing> = limits.iter().zip(tries).map(standing).collect();
            let index = scheduler.open(number, &standings, now).ok_or(WAIT)?;
            let server = self.servers.get(index).ok_or(WAIT)?;
            Ok(Lease { pool: self, index, server, answers: scheduler.answers(index) })
        })
    }

    /// Waits in this thread only.
    pub(super) fn sleep(&self, wait: Duration) -> Result<(), Stopped> {
        let until = Instant::now() + wait;
        self.wait(|_, now| if now >= until { Ok(()) } else { Err(until - now) })
    }

    /// Makes all current and later waits return [`Stopped`].
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether [`Pool::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits until `ready` returns a result; otherwise it returns after which time to call it again.
    fn wait<T>(&self, mut ready: impl FnMut(&mut State, Instant) -> Result<T, Duration>) -> Result<T, Stopped> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            match ready(&mut state, Instant::now()) {
                Ok(result) => return Ok(result),
                Err(wait) => {
                    state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// The state is valid even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// Waits until a request may be sent to the server.
    pub(super) fn acquire(&self) -> Result<(), Stopped> {
        self.pool.wait(|state, now| state.limits.get_mut(self.index).map_or(Ok(()), |limit| limit.take(now)))
    }

    /// Pauses all requests to the server from now on.
    pub(super) fn pause(&self, pause: Duration) {
        if let Some(limit) = self.pool.lock().limits.get_mut(self.index) {
            limit.pause(Instant::now() + pause);
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PromptStyle, Servers};

    #[test]
    fn pause_delays_all_requests_and_stop_ends_all_waits() {
        let servers = Servers::One("http://127.0.0.1:9/v1".into());
        let spec = EndpointSpec { servers, model: "m".into(), style: PromptStyle::Chat, key_variable: None };
        let pool = Pool::new(&spec, &EndpointConfig::default());
        let lease = pool.lease(0, &[0], 1).unwrap();
        lease.pause(Duration::from_millis(40));
        lease.pause(Duration::from_millis(1));
        let began = Instant::now();
        lease.acquire().unwrap();
        assert!(began.elapsed() >= Duration::from_millis(38));
        let is_paused = || pool.lock().limits[0].is_paused(Instant::now());
        assert!(!is_paused());
        lease.pause(Duration::from_secs(3600));
        assert!(is_paused());
        std::thread::scope(|scope| {
            let waiting = [scope.spawn(|| lease.acquire()), scope.spawn(|| pool.sleep(Duration::from_secs(3600)))];
            std::thread::sleep(Duration::from_millis(5));
            pool.stop();
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap().is_err()));
        });
        assert!(lease.acquire().is_err() && pool.lease(1, &[0], 1).is_err());
    }
}
