//! Delays requests: while the server asks for a pause, and to keep a maximum rate.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The player was dropped.
#[derive(Debug)]
pub(super) struct Stopped;

/// Shared by all threads of a player.
pub(super) struct RateLimiter {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    paused_until: Option<Instant>,
    bucket: Option<TokenBucket>,
    stopped: bool,
}

impl RateLimiter {
    pub(super) fn new(requests_per_minute: Option<f64>) -> Self {
        let bucket = requests_per_minute.map(|rate| TokenBucket::new(rate, Instant::now()));
        Self { state: Mutex::new(State { paused_until: None, bucket, stopped: false }), changed: Condvar::new() }
    }

    /// Waits until a request may be sent.
    pub(super) fn acquire(&self) -> Result<(), Stopped> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            let now = Instant::now();
            let wait = match state.paused_until.filter(|until| *until > now) {
                Some(until) => until - now,
                None => match state.bucket.as_mut().map_or(Ok(()), |bucket| bucket.take(now)) {
                    Ok(()) => return Ok(()),
                    Err(wait) => wait,
                },
            };
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether requests wait because of [`RateLimiter::pause_all`].
    pub(super) fn is_paused(&self) -> bool {
        self.lock().paused_until.is_some_and(|until| until > Instant::now())
    }

    /// Pauses all requests for `pause` from now on. A longer pause in progress is kept.
    pub(super) fn pause_all(&self, pause: Duration) {
        let mut state = self.lock();
        let until = Instant::now() + pause;
        state.paused_until = Some(state.paused_until.map_or(until, |before| before.max(until)));
    }

    /// Waits in this thread only.
    pub(super) fn sleep(&self, wait: Duration) -> Result<(), Stopped> {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Ok(());
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes all current and later waits return [`Stopped`].
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The state is valid even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token bucket: tokens arrive at a steady rate, up to one second's worth (at least one) are stored, and each request
/// takes one.
struct TokenBucket {
    per_second: f64,
    capacity: f64,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    fn new(per_minute: f64, now: Instant) -> Self {
        let per_second = per_minute / 60.0;
        let capacity = per_second.max(1.0);
        Self { per_second, capacity, tokens: capacity, filled: now }
    }

    /// Takes a token, or returns the time to wait for it.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.capacity);
        self.filled = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up, so that a thread does not wake a moment too early. Capped at an hour, after which it checks again.
        let wait = ((1.0 - self.tokens) / self.per_second + 1e-6).min(3600.0);
        Err(Duration::from_secs_f64(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bucket_keeps_the_rate() {
        let begin = Instant::now();
        let mut bucket = TokenBucket::new(120.0, begin);
        // Two a second: two at once, then one every half second.
        let (mut now, mut taken) = (begin, Vec::new());
        while taken.len() < 6 {
            match bucket.take(now) {
                Ok(()) => taken.push((now - begin).as_secs_f64()),
                Err(wait) => now += wait,
            }
        }
        for (at, expected) in taken.iter().zip([0.0, 0.0, 0.5, 1.0, 1.5, 2.0]) {
            assert!((at - expected).abs() < 1e-3, "{taken:?}");
        }
        // After a long pause, no more than one second's worth is stored.
        now += Duration::from_secs(600);
        assert_eq!((0..9).filter(|_| bucket.take(now).is_ok()).count(), 2);
    }

    #[test]
    fn pause_delays_all_requests_and_stop_ends_all_waits() {
        let limiter = RateLimiter::new(None);
        limiter.pause_all(Duration::from_millis(40));
        limiter.pause_all(Duration::from_millis(1));
        let began = Instant::now();
        limiter.acquire().unwrap();
        assert!(began.elapsed() >= Duration::from_millis(38));
        assert!(!limiter.is_paused());
        limiter.pause_all(Duration::from_secs(3600));
        assert!(limiter.is_paused());
        std::thread::scope(|scope| {
            let waiting = [scope.spawn(|| limiter.acquire()), scope.spawn(|| limiter.sleep(Duration::from_secs(3600)))];
            std::thread::sleep(Duration::from_millis(5));
            limiter.stop();
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap().is_err()));
        });
        assert!(limiter.acquire().is_err());
    }
}
