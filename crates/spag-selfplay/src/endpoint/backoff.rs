//! The wait before a retry.

use std::time::{Duration, SystemTime};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::config::RetryConfig;

/// The random stream of waits, apart from other uses of the seed.
const STREAM: u64 = 0x6261_636b;

/// The waits of one request, drawn from its seed: exponential back-off with full jitter (M. Brooker, "Exponential Backoff
/// And Jitter", AWS Architecture Blog 2015).
pub(super) struct Backoff {
    config: RetryConfig,
    rng: ChaCha8Rng,
    tried: u32,
}

impl Backoff {
    pub(super) fn new(config: RetryConfig, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(STREAM);
        Self { config, rng, tried: 0 }
    }

    /// The next wait: at least as long as the server asks for, up to `retry_after_cap`.
    pub(super) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let bound = self.config.base.saturating_mul(2u32.saturating_pow(self.tried)).min(self.config.cap);
        self.tried += 1;
        let drawn = bound.mul_f64(self.rng.random::<f64>());
        retry_after.map_or(drawn, |asked| drawn.max(asked.min(self.config.retry_after_cap)))
    }
}

/// The wait of a `Retry-After` header: seconds or a date (RFC 9110, section 10.2.3). `None` if it is neither.
pub(super) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    // Some servers send fractions.
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(header).ok()?;
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RetryConfig = RetryConfig {
        base: Duration::from_millis(500),
        cap: Duration::from_secs(30),
        retry_after_cap: Duration::from_secs(60),
        tries: 6,
        rest: Duration::ZERO,
    };

    #[test]
    fn waits_grow_to_the_cap_and_depend_on_the_seed_alone() {
        let waits = |seed| {
            let mut backoff = Backoff::new(CONFIG, seed);
            (0..40).map(|_| backoff.next(None)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        let mut longest = [Duration::ZERO; 40];
        for seed in 0..300 {
            for (tried, wait) in waits(seed).into_iter().enumerate() {
                let bound = Duration::from_millis(500 << tried.min(20)).min(CONFIG.cap);
                assert!(wait <= bound);
                longest[tried] = longest[tried].max(wait);
            }
        }
        assert!(longest[0] > Duration::from_millis(450) && longest[39] > Duration::from_secs(27));
    }

    #[test]
    fn retry_after_is_obeyed_up_to_its_cap() {
        let mut backoff = Backoff::new(CONFIG, 1);
        assert_eq!(backoff.next(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(backoff.next(Some(Duration::from_secs(7000))), Duration::from_secs(60));
    }

    #[test]
    fn retry_after_is_parsed_as_seconds_or_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (header, seconds) in [
            ("5", Some(5.0)),
            (" 0.5 ", Some(0.5)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10.0)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0.0)),
            ("soon", None),
            ("-3", None),
            ("1e999", None),
            ("NaN", None),
        ] {
            assert_eq!(retry_after(header, now).map(|wait| wait.as_secs_f64()), seconds, "{header}");
        }
    }
}
