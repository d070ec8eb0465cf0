//! What a process may choose about how it joins the others.

use std::time::Duration;

use super::Token;
use crate::{Error, Result};

/// How long ranks wait for each other at the start.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a rank shows that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// A rank of which nothing was heard for so long is lost.
pub const SILENCE: Duration = Duration::from_secs(10);
/// A collective that has moved nothing for so long is given up, although all ranks show that they live.
pub const COLLECTIVE_TIMEOUT: Duration = Duration::from_secs(600);
/// The environment variable that names the port, instead of MASTER_PORT.
pub const PORT_VARIABLE: &str = "SPAG_PORT";
/// The environment variable that holds the run's token.
pub const TOKEN_VARIABLE: &str = "SPAG_TOKEN";
/// The environment variable in which `spag launch` says how often it has started the run again.
pub const START_VARIABLE: &str = "SPAG_RESTART_COUNT";
/// Set by torchrun where a store of its own listens on MASTER_PORT.
const AGENT_STORE_VARIABLE: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// On which port rank 0 waits for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// The launcher's: MASTER_PORT.
    #[default]
    Rendezvous,
    /// The one after the launcher's, which listens on its own itself.
    AfterRendezvous,
    /// This one.
    Fixed(u16),
}

/// How a process joins the others, and when it gives them up. The same on every rank.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// On which port rank 0 waits.
    pub port: PortChoice,
    /// How often the launcher has started the run again, where it counts alike on all machines: `spag launch` does, torchrun
    /// need not. Ranks of different starts do not meet. `None`: not compared.
    pub start: Option<usize>,
    /// What the ranks of a run know and nobody else. `None`: made at the start, where all ranks are on one machine.
    pub token: Option<Token>,
    /// The program's version, which must be the same on every rank.
    pub version: String,
    /// How long ranks wait for each other at the start.
    pub join_timeout: Duration,
    /// How often a rank shows that it lives.
    pub heartbeat: Duration,
    /// A rank of which nothing was heard for so long is lost.
    pub silence: Duration,
    /// A collective that has moved nothing for so long is given up.
    pub collective_timeout: Duration,
}

impl Default for JoinOptions {
    fn default() -> Self {
        Self {
            port: PortChoice::default(),
            start: None,
            token: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            join_timeout: JOIN_TIMEOUT,
            heartbeat: HEARTBEAT,
            silence: SILENCE,
            collective_timeout: COLLECTIVE_TIMEOUT,
        }
    }
}

impl JoinOptions {
    /// The defaults, with the port, the start and the token that the environment of this process names.
    ///
    /// # Errors
    /// A port that is none, a count that is no number, or a token that is too short.
    pub fn detect() -> Result<Self> {
        Self::detect_with(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`JoinOptions::detect`], from an environment given as a look-up from a variable's name to its value.
    ///
    /// # Errors
    /// As [`JoinOptions::detect`].
    pub fn detect_with(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let lookup = |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let port = match lookup(PORT_VARIABLE) {
            Some(value) => match value.parse::<u16>() {
                Ok(port) if port > 0 => PortChoice::Fixed(port),
                _ => return Err(Error::NotAPort { name: PORT_VARIABLE, value }),
            },
            None if lookup(AGENT_STORE_VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("true")) => {
                PortChoice::AfterRendezvous
            }
            None => PortChoice::Rendezvous,
        };
        let start = match lookup(START_VARIABLE) {
            Some(value) => match value.parse() {
                Ok(start) => Some(start),
                Err(_) => return Err(Error::NotANumber { name: START_VARIABLE, value, at_least: 0 }),
            },
            None => None,
        };
        let token = lookup(TOKEN_VARIABLE).map(|text| Token::new(&text)).transpose()?;
        Ok(Self { port, start, token, ..Self::default() })
    }
}
