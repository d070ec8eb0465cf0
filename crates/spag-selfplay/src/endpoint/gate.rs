//! The gate that every try goes through: closed for all while the server asks for a pause, and passed no oftener than
//! allowed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The player is gone; nobody wants the answer.
#[derive(Debug)]
pub(super) struct Stopped;

/// Shared by all threads of a player.
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    closed_until: Option<Instant>,
    bucket: Option<Bucket>,
    stopped: bool,
}

impl Gate {
    pub(super) fn new(requests_per_minute: Option<f64>) -> Self {
        let bucket = requests_per_minute.map(|rate| Bucket::new(rate, Instant::now()));
        Self { state: Mutex::new(State { closed_until: None, bucket, stopped: false }), changed: Condvar::new() }
    }

    /// Waits until the gate is open and the rate allows one more.
    pub(super) fn pass(&self) -> Result<(), Stopped> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            let now = Instant::now();
            let wait = match state.closed_until.filter(|until| *until > now) {
                Some(until) => until - now,
                None => match state.bucket.as_mut().map_or(Ok(()), |bucket| bucket.take(now)) {
                    Ok(()) => return Ok(()),
                    Err(wait) => wait,
                },
            };
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the gate for everyone, from now on for `pause`; a longer pause that is under way stays.
    pub(super) fn close(&self, pause: Duration) {
        let mut state = self.lock();
        let until = Instant::now() + pause;
        state.closed_until = Some(state.closed_until.map_or(until, |before| before.max(until)));
    }

    /// Waits alone.
    pub(super) fn rest(&self, wait: Duration) -> Result<(), Stopped> {
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

    /// Sends everyone home who waits or comes.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// A thread that panicked leaves numbers that are still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token bucket: tokens come at a steady rate, a second's worth of them (at least one) can be saved up, and each
/// request takes one.
struct Bucket {
    per_second: f64,
    most: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(per_minute: f64, now: Instant) -> Self {
        let per_second = per_minute / 60.0;
        let most = per_second.max(1.0);
        Self { per_second, most, tokens: most, filled: now }
    }

    /// Takes a token, or says how long to wait for it.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.most);
        self.filled = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up a little: one that comes a moment early would only wait again. At most an hour, then it looks anew.
        let wait = ((1.0 - self.tokens) / self.per_second + 1e-6).min(3600.0);
        Err(Duration::from_secs_f64(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_keeps_the_rate() {
        let begin = Instant::now();
        let mut bucket = Bucket::new(120.0, begin);
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
        // A long rest saves up no more than a second's worth.
        now += Duration::from_secs(600);
        assert_eq!((0..9).filter(|_| bucket.take(now).is_ok()).count(), 2);
    }

    #[test]
    fn a_closed_gate_holds_everyone_and_a_stopped_one_lets_all_go() {
        let gate = Gate::new(None);
        gate.close(Duration::from_millis(40));
        gate.close(Duration::from_millis(1));
        let began = Instant::now();
        gate.pass().unwrap();
        assert!(began.elapsed() >= Duration::from_millis(38));
        gate.close(Duration::from_secs(3600));
        std::thread::scope(|scope| {
            let waiting = [scope.spawn(|| gate.pass()), scope.spawn(|| gate.rest(Duration::from_secs(3600)))];
            std::thread::sleep(Duration::from_millis(5));
            gate.stop();
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap().is_err()));
        });
        assert!(gate.pass().is_err());
    }
}
