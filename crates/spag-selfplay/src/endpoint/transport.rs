//! One try of a request, and what is to be made of what comes back.

use std::time::{Duration, SystemTime};

use ureq::Agent;
use ureq::http::{Response, header};

use super::backoff::retry_after;
use super::config::EndpointConfig;
use super::key::ApiKey;
use super::protocol::{Said, Usage, excerpt, read_answer, server_message};
use crate::player_spec::{EndpointSpec, PromptStyle};

/// No utterance is longer, in bytes.
const LONGEST_ANSWER: u64 = 16 << 20;

/// What came of a try.
#[derive(Debug)]
pub(super) enum Tried {
    /// An utterance.
    Said(String, Usage),
    /// This turn gets none, whatever is done.
    Refused(String, Usage),
    /// No turn gets one until the user does something.
    Fatal(String),
    /// It may be different the next time.
    Again {
        reason: String,
        /// What the server asks to wait.
        after: Option<Duration>,
        who: Pausing,
    },
}

/// Who waits before the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pausing {
    /// The request that failed.
    Alone,
    /// Every request: the server has too many of them.
    Everyone,
}

/// The way to one endpoint.
pub(super) struct Transport {
    agent: Agent,
    url: String,
    base_url: String,
    style: PromptStyle,
    key: Option<ApiKey>,
}

impl Transport {
    pub(super) fn new(spec: &EndpointSpec, config: &EndpointConfig) -> Self {
        let mut agent = Agent::config_builder()
            .timeout_global(Some(config.timeout))
            .http_status_as_error(false)
            // The key goes where it was meant to go, and nowhere else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(config.in_flight)
            .max_idle_connections_per_host(config.in_flight)
            .user_agent(concat!("spag/", env!("CARGO_PKG_VERSION")));
        if is_local(&spec.base_url) {
            // A proxy of the environment is for the world outside.
            agent = agent.proxy(None);
        }
        Self {
            agent: agent.build().into(),
            url: format!("{}{}", spec.base_url, spec.style.path()),
            base_url: spec.base_url.clone(),
            style: spec.style,
            key: config.key.clone(),
        }
    }

    /// Sends the request once. No message holds the key, should the server echo it.
    pub(super) fn send(&self, body: &[u8]) -> Tried {
        let redact = |text: String| match &self.key {
            Some(key) => key.redact(&text),
            None => text,
        };
        match self.once(body) {
            Tried::Said(text, usage) => Tried::Said(text, usage),
            Tried::Refused(message, usage) => Tried::Refused(redact(message), usage),
            Tried::Fatal(message) => Tried::Fatal(redact(message)),
            Tried::Again { reason, after, who } => Tried::Again { reason: redact(reason), after, who },
        }
    }

    fn once(&self, body: &[u8]) -> Tried {
        let mut request = self.agent.post(&self.url).header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key.bearer());
        }
        let (response, mut bytes) = match request.send(body).and_then(read) {
            Ok(answer) => answer,
            Err(error) => return self.no_answer(&error),
        };
        if response.status().is_success()
            && let (Said::Text(text), usage) = read_answer(self.style, &bytes)
        {
            return Tried::Said(text, usage);
        }
        // From here on there are messages only. What is cut short in them could leave half a key.
        if let Some(key) = &self.key {
            key.redact_bytes(&mut bytes);
        }
        let status = response.status();
        let message = || server_message(&bytes);
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let after = header(header::RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
        let again = |who| Tried::Again { reason: format!("{} says {status}: {}", self.url, message()), after, who };
        match status.as_u16() {
            200..=299 => match read_answer(self.style, &bytes) {
                (Said::Text(text), usage) => Tried::Said(text, usage),
                (Said::Nothing(why), usage) => Tried::Refused(why, usage),
                (Said::Garbage(why), _) => {
                    Tried::Again { reason: format!("{}: {why}", self.url), after, who: Pausing::Alone }
                }
            },
            300..=399 => Tried::Fatal(format!(
                "{} redirects to {}; write that address instead",
                self.url,
                header(header::LOCATION).map_or_else(|| "nowhere".to_owned(), excerpt)
            )),
            401 | 403 => Tried::Fatal(format!(
                "{} does not let us in ({status}): {}; {}",
                self.url,
                message(),
                match self.key {
                    Some(_) => "the key in OPENAI_API_KEY is not one for this endpoint and model",
                    None => "set the environment variable OPENAI_API_KEY to a key of this endpoint",
                }
            )),
            404 => Tried::Fatal(format!(
                "{} is not there, or has no such model ({status}): {}; {}/models lists the models, and an address \
                 mostly ends with /v1",
                self.url,
                message(),
                self.base_url
            )),
            429 => again(Pausing::Everyone),
            408 | 409 | 425 | 500..=599 => again(Pausing::Alone),
            _ => Tried::Refused(format!("{} says {status}: {}", self.url, message()), Usage::default()),
        }
    }

    /// No answer came, or not all of it.
    fn no_answer(&self, error: &ureq::Error) -> Tried {
        let reason = format!("{}: {}", self.url, excerpt(&error.to_string()));
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => Tried::Fatal(reason),
            ureq::Error::BodyExceedsLimit(_) => Tried::Refused(reason, Usage::default()),
            _ => Tried::Again { reason, after: None, who: Pausing::Alone },
        }
    }
}

/// The whole body, so that a connection that breaks in the middle is seen here.
fn read(response: Response<ureq::Body>) -> Result<(Response<()>, Vec<u8>), ureq::Error> {
    let (parts, body) = response.into_parts();
    let bytes = body.into_with_config().limit(LONGEST_ANSWER).read_to_vec()?;
    Ok((Response::from_parts(parts, ()), bytes))
}

/// Whether an address is one of this machine.
fn is_local(base_url: &str) -> bool {
    let uri: Option<ureq::http::Uri> = base_url.parse().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}
