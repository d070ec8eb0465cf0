//! How an endpoint is asked.

use std::time::Duration;

use super::key::ApiKey;
use crate::error::{Error, Result};

/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How an endpoint is asked.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Tokens of an utterance at most; 256 in the paper.
    pub max_tokens: usize,
    /// Sampling temperature; 0 is greedy. 1.2 in the paper's self-play.
    pub temperature: f64,
    /// Draw from the likeliest tokens that together have this probability only, if given.
    pub top_p: Option<f64>,
    /// Requests under way at a time at most; as many threads wait for them.
    pub in_flight: usize,
    /// How long one try of a request may take, answer included.
    pub timeout: Duration,
    /// Requests that may begin in a minute, tries counted one by one; without it, as many as there are.
    pub requests_per_minute: Option<f64>,
    /// When a request is tried again.
    pub retry: RetryConfig,
    /// Sent as `Authorization: Bearer …`, if given.
    pub key: Option<ApiKey>,
}

/// When a request that got no usable answer is tried again: exponential back-off with full jitter, that is, after a
/// random time between 0 and a bound that doubles with each try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryConfig {
    /// Bound of the first wait.
    pub base: Duration,
    /// The bound grows no further than this.
    pub cap: Duration,
    /// A server that asks for a longer wait (`Retry-After`) gets this one.
    pub retry_after_cap: Duration,
    /// Tries at most, the first included.
    pub tries: u32,
}

impl Default for RetryConfig {
    /// Six tries; half a second, doubling up to 30; a server's wish is granted up to two minutes.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            retry_after_cap: Duration::from_secs(120),
            tries: 6,
        }
    }
}

impl Default for EndpointConfig {
    /// The paper's sampling, 16 requests at a time of two minutes each at most, no limit of rate, no key.
    fn default() -> Self {
        Self {
            max_tokens: 256,
            temperature: 1.2,
            top_p: None,
            in_flight: 16,
            timeout: Duration::from_secs(120),
            requests_per_minute: None,
            retry: RetryConfig::default(),
            key: None,
        }
    }
}

impl EndpointConfig {
    /// What decides the utterances, as records of games note it: not the key, not the pace.
    pub fn describe(&self) -> String {
        let top_p = self.top_p.map(|p| format!("; top_p={p}")).unwrap_or_default();
        format!("temperature={}{top_p}; max_tokens={}", self.temperature, self.max_tokens)
    }

    pub(super) fn check(&self) -> Result<()> {
        let bad = |setting, problem: &str| Err(Error::BadSetting { setting, problem: problem.to_owned() });
        let above_0 = |x: f64| x.is_finite() && x > 0.0;
        if self.max_tokens == 0 {
            return bad("max_tokens", "at least 1 is needed");
        }
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return bad("temperature", "a number of at least 0 is needed");
        }
        if self.top_p.is_some_and(|p| !(above_0(p) && p <= 1.0)) {
            return bad("top_p", "a number above 0 and up to 1 is needed");
        }
        if self.in_flight == 0 {
            return bad("in_flight", "at least 1 is needed");
        }
        if self.timeout.is_zero() || self.timeout > LONGEST {
            return bad("timeout", "it has to be longer than nothing, and no more than a day");
        }
        if self.retry.cap > LONGEST || self.retry.retry_after_cap > LONGEST {
            return bad("retry", "no wait can be longer than a day");
        }
        if self.requests_per_minute.is_some_and(|rate| !above_0(rate)) {
            return bad("requests_per_minute", "a number above 0 is needed");
        }
        if self.retry.tries == 0 {
            return bad("retry.tries", "at least 1 is needed");
        }
        Ok(())
    }
}
