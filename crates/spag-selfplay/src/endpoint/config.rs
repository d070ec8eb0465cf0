//! Settings of an endpoint.

use std::time::Duration;

use spag_chat::{ReasoningSettings, TemplateSettings};
use spag_io::PromptFormat;
use spag_model::generate::Sampling;

use super::key::ApiKey;
use crate::error::{Error, Result};
use crate::settings::{EndpointSettings, LengthSettings, SamplingSettings};

/// The longest timeout or wait.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Which servers are asked for the `top_k` of the settings, which is not of OpenAI's protocol. OpenAI's own servers refuse it;
/// `spag serve`, vLLM, SGLang and llama.cpp's server accept it and are recognised by their list of models. Others draw from all
/// tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopK {
    /// Servers that are known to accept it.
    WhereAccepted,
    /// Every server if the settings have a number: one that refuses it fails the turn. The reference's number, where it is accepted.
    Always,
}

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Maximum tokens of an utterance; 256 in the paper. Those of reasoning are added.
    pub max_tokens: usize,
    /// How tokens are drawn. A turn may have a temperature of its own.
    pub sampling: SamplingSettings,
    /// Which servers are asked for `top_k`.
    pub top_k: TopK,
    /// Maximum concurrent requests to a URL, each in a thread.
    pub in_flight: usize,
    /// Timeout of one try, including the answer.
    pub timeout: Duration,
    /// Maximum requests per minute to a URL, including retries; unlimited if `None`.
    pub requests_per_minute: Option<f64>,
    /// When a request is retried.
    pub retry: RetryConfig,
    /// Sent as `Authorization: Bearer …`.
    pub key: Option<ApiKey>,
    /// Variables of the server's chat template, and the tags around reasoning in the text of an answer. A server that is not known to
    /// accept variables ends the run if there are some.
    pub template: TemplateSettings,
    /// How the model thinks before it speaks.
    pub reasoning: ReasoningSettings,
    /// The format of prompts, on which the default of [`EndpointConfig::reasoning`] depends.
    pub prompts: PromptFormat,
    /// Receives a line when a URL of a pool fails, and when it answers again. Called from any thread.
    pub report: fn(&str),
}

/// When a request without a usable answer is retried: exponential back-off with full jitter, that is, after a random time
/// between 0 and a bound that doubles with each try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryConfig {
    /// Bound of the first wait.
    pub base: Duration,
    /// Upper limit of the bound.
    pub cap: Duration,
    /// Upper limit of a wait that the server asks for (`Retry-After`).
    pub retry_after_cap: Duration,
    /// Maximum tries of a URL, including the first.
    pub tries: u32,
    /// How long a failed URL of a pool gets no turns. One turn then tries it again.
    pub rest: Duration,
}

impl Default for RetryConfig {
    /// Six tries, half a second doubling up to 30 seconds, and up to two minutes if the server asks for it. A failed URL of
    /// a pool is tried again after 30 seconds.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            retry_after_cap: Duration::from_secs(120),
            tries: 6,
            rest: Duration::from_secs(30),
        }
    }
}

impl Default for EndpointConfig {
    /// The paper's sampling, 16 concurrent requests, a timeout of two minutes, no rate limit and no key.
    fn default() -> Self {
        Self::new(&SamplingSettings::default(), LengthSettings::default().max_new_tokens, &EndpointSettings::default())
    }
}

impl EndpointConfig {
    /// Utterances of at most `max_tokens` tokens without reasoning; no key and no reports.
    pub fn new(sampling: &SamplingSettings, max_tokens: usize, requests: &EndpointSettings) -> Self {
        Self {
            max_tokens,
            sampling: *sampling,
            top_k: TopK::Always,
            in_flight: requests.requests_in_flight,
            // What is no duration is refused as 0 is.
            timeout: Duration::try_from_secs_f64(requests.request_timeout).unwrap_or_default(),
            requests_per_minute: requests.requests_per_minute,
            retry: RetryConfig::default(),
            key: None,
            template: TemplateSettings::default(),
            reasoning: ReasoningSettings::default(),
            prompts: PromptFormat::Plain,
            report: |_| {},
        }
    }

    /// The number of likely tokens that one is drawn from, and which servers are asked for it; `None` is all.
    pub(super) fn top_k(&self) -> Option<(usize, TopK)> {
        match self.sampling.top_k {
            Some(0) => None,
            Some(k) => Some((k, self.top_k)),
            None => Some((Sampling::REFERENCE_TOP_K, TopK::WhereAccepted)),
        }
    }

    /// The number of likely tokens that one is drawn from, as records of games have it.
    pub fn describe_top_k(&self) -> String {
        match self.top_k().filter(|_| self.sampling.temperature > 0.0) {
            None => String::new(),
            Some((k, TopK::WhereAccepted)) => format!(" with top_k {k} where accepted"),
            Some((k, TopK::Always)) => format!(" with top_k {k}"),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let waits = [self.retry.cap, self.retry.retry_after_cap, self.retry.rest];
        let waits_are_short = waits.iter().all(|wait| *wait <= LONGEST);
        let SamplingSettings { temperature, top_p, .. } = self.sampling;
        let temperature_is_valid = temperature.is_finite() && temperature >= 0.0;
        for (setting, is_valid, problem) in [
            ("max_tokens", self.max_tokens > 0, "must be at least 1"),
            ("temperature", temperature_is_valid, "must be a number of 0 or more"),
            ("top_p", top_p.is_none_or(|p| positive(p) && p <= 1.0), "must be above 0 and at most 1"),
            ("in_flight", self.in_flight > 0, "must be at least 1"),
            ("timeout", !self.timeout.is_zero() && self.timeout <= LONGEST, "must be longer than 0 and at most a day"),
            ("retry", waits_are_short, "a wait must be at most a day"),
            ("requests_per_minute", self.requests_per_minute.is_none_or(positive), "must be a number above 0"),
            ("retry.tries", self.retry.tries > 0, "must be at least 1"),
        ] {
            if !is_valid {
                return Err(Error::BadSetting { setting, problem });
            }
        }
        Ok(self.reasoning.check(self.prompts)?)
    }
}
