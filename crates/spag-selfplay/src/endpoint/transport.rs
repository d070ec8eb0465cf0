//! One try of a request and the classification of its result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use spag_game::Said;
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, RequestBuilder};

use super::backoff::retry_after;
use super::config::EndpointConfig;
use super::dialect::{Dialect, is_of_openai};
use super::key::ApiKey;
use super::protocol::{Content, Usage, excerpt, read_answer, refuses_max_tokens, rename_limit, server_message};
use super::reasoning::Message;
use super::spec::{EndpointSpec, PromptStyle};

/// Maximum size of an answer in bytes.
const LONGEST_ANSWER: u64 = 16 << 20;

/// The result of one try.
#[derive(Debug)]
pub(super) enum Attempt {
    /// An utterance.
    Utterance(Said, Usage),
    /// A permanent failure of this turn.
    Refused(String, Usage),
    /// A failure of every turn until the user changes something.
    Fatal(String),
    /// A failure that a retry may solve.
    Retry {
        reason: String,
        /// The wait that the server asks for.
        after: Option<Duration>,
        trouble: Trouble,
    },
}

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It has too many requests: all of them wait.
    Busy,
    /// It has answered, though not with an utterance.
    NoUtterance,
    /// No connection, or no whole answer in time.
    NoAnswer,
}

/// The HTTP client of one URL.
pub(super) struct Transport {
    agent: Agent,
    url: String,
    base_url: String,
    style: PromptStyle,
    key: Option<ApiKey>,
    model: String,
    /// Of the server, once it has said.
    dialect: Mutex<Option<Dialect>>,
    /// Whether the server takes the limit of tokens under the name of OpenAI's current models.
    limit_is_renamed: AtomicBool,
}

impl Transport {
    pub(super) fn new(base_url: &str, spec: &EndpointSpec, config: &EndpointConfig) -> Self {
        let mut agent = Agent::config_builder()
            .timeout_global(Some(config.timeout))
            .http_status_as_error(false)
            // The key must not be sent to another address.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(config.in_flight)
            .max_idle_connections_per_host(config.in_flight)
            .user_agent(concat!("spag/", env!("CARGO_PKG_VERSION")));
        if is_local(base_url) {
            // Proxies of the environment are for other machines.
            agent = agent.proxy(None);
        }
        Self {
            agent: agent.build().into(),
            url: format!("{base_url}{}", spec.style.path()),
            base_url: base_url.to_owned(),
            style: spec.style,
            key: config.key.clone(),
            model: spec.model.clone(),
            dialect: Mutex::default(),
            limit_is_renamed: AtomicBool::new(false),
        }
    }

    /// Sends the request of the server's dialect once; there may be none in it. `said` is what a message says, if it has a text. The
    /// key is removed from messages and utterances, in case the server echoes it.
    pub(super) fn send(
        &self,
        body: impl FnOnce(Dialect) -> Result<Value, String>,
        said: impl FnOnce(Message) -> Option<Said>,
    ) -> Attempt {
        let body = match self.dialect().map(body) {
            Ok(Ok(body)) => body,
            Ok(Err(reason)) => return self.not_accepted(reason),
            Err(error) => return self.no_answer(&error),
        };
        let (response, bytes) = match self.post(body) {
            Ok(answer) => answer,
            Err(error) => return self.no_answer(&error),
        };
        let key = self.key.as_ref();
        let status = response.status();
        let message = || server_message(&bytes, key);
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let after = header(header::RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
        let retry =
            |trouble| Attempt::Retry { reason: format!("{} says {status}: {}", self.url, message()), after, trouble };
        match status.as_u16() {
            200..=299 => match read_answer((self.style, key), &bytes, said) {
                (Content::Said(said), usage) => Attempt::Utterance(said, usage),
                (Content::NoText(reason), usage) => Attempt::Refused(reason, usage),
                (Content::Invalid(reason), _) => {
                    Attempt::Retry { reason: format!("{}: {reason}", self.url), after, trouble: Trouble::NoUtterance }
                }
            },
            300..=399 => Attempt::Fatal(format!(
                "{} redirects to {}; use that address instead",
                self.url,
                header(header::LOCATION).map_or_else(|| "nowhere".to_owned(), |address| excerpt(address, key))
            )),
            401 | 403 => Attempt::Fatal(format!(
                "{} refuses access ({status}): {}; {}",
                self.url,
                message(),
                match key {
                    Some(key) => format!("the key in {} is not valid for this endpoint and model", key.variable()),
                    None =>
                        "set the environment variable OPENAI_API_KEY to a key of this endpoint, or, if the players are \
                             on several hosts, name a variable in the player: openai:NAME_API_KEY@http://…"
                            .to_owned(),
                }
            )),
            404 => Attempt::Fatal(format!(
                "{} does not exist or has no such model ({status}): {}; {}/models lists the models, and most addresses \
                 end with /v1",
                self.url,
                message(),
                self.base_url
            )),
            429 => retry(Trouble::Busy),
            passing if passes(passing) => retry(Trouble::NoUtterance),
            _ => Attempt::Refused(format!("{} says {status}: {}", self.url, message()), Usage::default()),
        }
    }

    /// Sends a request. If a chat is refused for its `max_tokens`, it is sent once more with the other name of the limit, which is
    /// kept if it is taken.
    fn post(&self, mut body: Value) -> Result<(Response<()>, Vec<u8>), ureq::Error> {
        let send = |body: &Value| {
            let request = self.agent.post(&self.url).header(header::CONTENT_TYPE, "application/json");
            self.authorized(request).send(body.to_string()).and_then(read)
        };
        let is_chat = self.style == PromptStyle::Chat;
        if is_chat && self.limit_is_renamed.load(Ordering::Relaxed) {
            rename_limit(&mut body);
            return send(&body);
        }
        let answer = send(&body)?;
        if !is_chat || answer.0.status() != StatusCode::BAD_REQUEST || !refuses_max_tokens(&answer.1) {
            return Ok(answer);
        }
        rename_limit(&mut body);
        let second = send(&body)?;
        self.limit_is_renamed.store(second.0.status() != StatusCode::BAD_REQUEST, Ordering::Relaxed);
        Ok(second)
    }

    /// The dialect of the server, which is asked for its models until it answers. Other requests wait for the answer, so that
    /// all tokens are drawn alike. A server that cannot answer now gets what all servers accept.
    fn dialect(&self) -> Result<Dialect, ureq::Error> {
        let mut known = self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dialect) = *known {
            return Ok(dialect);
        }
        let request = self.authorized(self.agent.get(format!("{}/models", self.base_url)));
        let (response, bytes) = request.call().and_then(read)?;
        let dialect = match response.status().as_u16() {
            passing if passes(passing) => return Ok(Dialect::OpenAi),
            200..=299 => {
                self.limit_is_renamed.store(is_of_openai(&bytes, &self.model), Ordering::Relaxed);
                Dialect::of_models(&bytes, &self.model)
            }
            _ => Dialect::OpenAi,
        };
        *known = Some(dialect);
        Ok(dialect)
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header(header::AUTHORIZATION, key.bearer()),
            None => request,
        }
    }

    /// A request that the server is not known to accept. A server that cannot list its models now may accept it later.
    fn not_accepted(&self, reason: String) -> Attempt {
        if self.dialect.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Attempt::Fatal(reason);
        }
        let reason = format!("{}/models cannot be read yet: {reason}", self.base_url);
        Attempt::Retry { reason, after: None, trouble: Trouble::NoUtterance }
    }

    /// No answer, or an incomplete one.
    fn no_answer(&self, error: &ureq::Error) -> Attempt {
        let reason = format!("{}: {}", self.url, excerpt(&error.to_string(), self.key.as_ref()));
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => Attempt::Fatal(reason),
            ureq::Error::BodyExceedsLimit(_) => Attempt::Refused(reason, Usage::default()),
            _ => Attempt::Retry { reason, after: None, trouble: Trouble::NoAnswer },
        }
    }
}

/// Whether a status may be another one at the next try.
fn passes(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

/// Reads the whole body, so that a broken connection is an error here.
fn read(response: Response<ureq::Body>) -> Result<(Response<()>, Vec<u8>), ureq::Error> {
    let (parts, body) = response.into_parts();
    let bytes = body.into_with_config().limit(LONGEST_ANSWER).read_to_vec()?;
    Ok((Response::from_parts(parts, ()), bytes))
}

/// Whether an address is on this machine.
fn is_local(base_url: &str) -> bool {
    let uri: Option<ureq::http::Uri> = base_url.parse().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}
