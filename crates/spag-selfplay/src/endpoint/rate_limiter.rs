//! When the next request may be sent to a server: after a pause that it asked for, and at a maximum rate.

use std::time::{Duration, Instant};

/// The pause and the rate of one server.
pub(super) struct RateLimit {
    paused_until: Option<Instant>,
    bucket: Option<TokenBucket>,
}

impl RateLimit {
    pub(super) fn new(requests_per_minute: Option<f64>) -> Self {
        Self { paused_until: None, bucket: requests_per_minute.map(|rate| TokenBucket::new(rate, Instant::now())) }
    }

    /// Takes the place of a request, or returns the time to wait for one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        match self.paused_until.filter(|until| *until > now) {
            Some(until) => Err(until - now),
            None => self.bucket.as_mut().map_or(Ok(()), |bucket| bucket.take(now)),
        }
    }

    /// Whether requests wait because of [`RateLimit::pause`].
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }

    /// Pauses all requests until a time. A longer pause in progress is kept.
    pub(super) fn pause(&mut self, until: Instant) {
        self.paused_until = self.paused_until.max(Some(until));
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
}
