//! Ports, token and timeouts of a process group.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Token;
use crate::Result;
use crate::env::{MAX_RESTARTS, number, port};

/// The environment variable that overrides MASTER_PORT.
const PORT_VARIABLE: &str = "SPAG_PORT";
/// The environment variable with the run's token.
const TOKEN_VARIABLE: &str = "SPAG_TOKEN";
/// The environment variable in which `spag launch` counts restarts.
pub const RESTART_COUNT_VARIABLE: &str = "SPAG_RESTART_COUNT";
/// The environment variable with the seconds that ranks wait for each other at the start.
pub(crate) const JOIN_TIMEOUT_VARIABLE: &str = "SPAG_JOIN_TIMEOUT";
/// The environment variable with the seconds after which a silent rank is lost.
pub(crate) const HEARTBEAT_TIMEOUT_VARIABLE: &str = "SPAG_HEARTBEAT_TIMEOUT";
/// The environment variable with the seconds after which a collective fails.
pub(crate) const COLLECTIVE_TIMEOUT_VARIABLE: &str = "SPAG_COLLECTIVE_TIMEOUT";
/// Seconds of a timeout, up to a week.
pub(crate) const TIMEOUT: RangeInclusive<usize> = 1..=604_800;
/// Those of heartbeats, several of which fit in the least.
pub(crate) const HEARTBEAT_TIMEOUT: RangeInclusive<usize> = 3..=*TIMEOUT.end();
/// Set by torchrun if its own store listens on MASTER_PORT.
const AGENT_STORE_VARIABLE: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// The port on which rank 0 listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// MASTER_PORT.
    #[default]
    Rendezvous,
    /// MASTER_PORT + 1, if the launcher itself listens on MASTER_PORT.
    AfterRendezvous,
    /// This one.
    Fixed(u16),
}

/// Settings of a process group or a work queue; the same on every rank.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The port on which rank 0 listens.
    pub port: PortChoice,
    /// Restart count of the launcher; ranks with different counts do not join each other. `None` (not compared) if the
    /// launcher does not count consistently across machines (torchrun).
    pub restart_count: Option<usize>,
    /// The secret shared by the ranks. If `None`, rank 0 generates one, provided that all ranks are on one machine.
    pub token: Option<Token>,
    /// The program's version, which must be the same on every rank.
    pub version: String,
    /// How long ranks wait for each other at the start; 60 s by default.
    pub join_timeout: Duration,
    /// The time between heartbeats; 1 s by default.
    pub heartbeat_interval: Duration,
    /// A rank that sends nothing for this long is lost; 10 s by default.
    pub heartbeat_timeout: Duration,
    /// A collective on buffers of the host that makes no progress for this long fails; 600 s by default.
    pub collective_timeout: Duration,
    /// A collective of GPUs that takes longer fails, and so does NCCL if it takes longer to connect the ranks; 600 s by default.
    pub device_timeout: Duration,
}

impl Default for JoinOptions {
    fn default() -> Self {
        Self {
            port: PortChoice::default(),
            restart_count: None,
            token: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            join_timeout: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_timeout: Duration::from_secs(10),
            collective_timeout: Duration::from_secs(600),
            device_timeout: Duration::from_secs(600),
        }
    }
}

impl JoinOptions {
    /// The defaults, with port (`SPAG_PORT`), restart count (`SPAG_RESTART_COUNT`), token (`SPAG_TOKEN`) and timeouts
    /// (`SPAG_JOIN_TIMEOUT`, `SPAG_HEARTBEAT_TIMEOUT`, and `SPAG_COLLECTIVE_TIMEOUT` for hosts and GPUs, in seconds) from the environment.
    ///
    /// # Errors
    /// An invalid port, count or timeout, or a token that is too short.
    pub fn detect() -> Result<Self> {
        Self::detect_with(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`JoinOptions::detect`], with `lookup` in place of the environment.
    ///
    /// # Errors
    /// As [`JoinOptions::detect`].
    pub fn detect_with(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let lookup = |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let port = match port(&lookup, PORT_VARIABLE)? {
            Some(port) => PortChoice::Fixed(port),
            None if lookup(AGENT_STORE_VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("true")) => {
                PortChoice::AfterRendezvous
            }
            None => PortChoice::Rendezvous,
        };
        let restart_count = number(&lookup, RESTART_COUNT_VARIABLE, 0..=MAX_RESTARTS)?;
        let token = lookup(TOKEN_VARIABLE).map(|text| Token::new(&text)).transpose()?;
        let default = Self::default();
        let seconds =
            |name, range| Ok::<_, crate::Error>(number(&lookup, name, range)?.map(|n| Duration::from_secs(n as u64)));
        let collective = seconds(COLLECTIVE_TIMEOUT_VARIABLE, TIMEOUT)?;
        Ok(Self {
            port,
            restart_count,
            token,
            join_timeout: seconds(JOIN_TIMEOUT_VARIABLE, TIMEOUT)?.unwrap_or(default.join_timeout),
            heartbeat_timeout: seconds(HEARTBEAT_TIMEOUT_VARIABLE, HEARTBEAT_TIMEOUT)?
                .unwrap_or(default.heartbeat_timeout),
            collective_timeout: collective.unwrap_or(default.collective_timeout),
            device_timeout: collective.unwrap_or(default.device_timeout),
            ..default
        })
    }
}
