//! The flags of a server, and what the servers of this program have in common.

use std::path::PathBuf;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spag_cli::{Error, Result, Signal, exit};
use spag_serve::{AdapterLoading, ApiKeys, Ended, Limits, QueueLimits, Server, ServerConfig};

/// The heading of these flags in the help.
pub(crate) const HEADING: &str = "Network";

/// The flags of the network.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct NetworkArgs {
    /// Name or address to listen on. 0.0.0.0 is every network of this machine.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", help_heading = HEADING)]
    host: String,
    /// Port to listen on; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 8000, help_heading = HEADING)]
    port: u16,
    /// File with the keys of clients, one a line. Without it, everybody who can connect is served.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    api_key_file: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    hosts: AllowedHosts,
    /// Origin whose pages may use the server from a browser (CORS), e.g. https://example.org, or * for all. May be given
    /// several times.
    #[arg(long, value_name = "ORIGIN", help_heading = HEADING)]
    cors_origin: Vec<String>,
}

/// The hosts by which a server is known.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct AllowedHosts {
    /// Host by which clients may name the server, e.g. play.example.org, or * for all: that of a proxy in front of it. May be given
    /// several times [default: hosts of this machine, or all if it listens on another address than this machine's own].
    #[arg(long, alias = "allowed_hosts", value_name = "HOST", help_heading = HEADING)]
    pub(crate) allowed_host: Vec<String>,
}

impl NetworkArgs {
    /// The settings of the server.
    ///
    /// # Errors
    /// The file of keys cannot be read.
    pub(crate) fn config(&self, queue: QueueLimits) -> Result<ServerConfig> {
        Ok(ServerConfig {
            host: self.host.clone(),
            port: self.port,
            keys: self.api_key_file.as_ref().map(ApiKeys::read).transpose()?,
            limits: self.limits,
            queue,
            allowed_hosts: self.hosts.allowed_host.clone(),
            cors_origins: self.cors_origin.clone(),
            adapter_loading: AdapterLoading::Refused,
        })
    }
}

/// Says where a server listens, and serves until a signal ends it. `open` says what everybody may do without a key.
///
/// # Errors
/// An engine failed, or a second signal came.
pub(crate) fn serve(mut server: Server, keys: Keys, open: &str) -> Result<()> {
    let address = server.address();
    if keys == Keys::None && !address.ip().is_loopback() {
        exit::note(format_args!(
            "warning: everybody who can connect to {address} {open}; restrict it with --api_key_file"
        ));
    }
    server.take_signals()?;
    exit::say(format_args!("listening on http://{address}"))?;
    let stopped = |signal| {
        let message = "stopped by a second signal; requests in progress were not completed".to_owned();
        Err(Error::Stopped { signal, message })
    };
    match server.run(|fault| exit::note(format_args!("error: {fault}")))? {
        Ended::Drained => Ok(()),
        Ended::Interrupted => stopped(Signal::Interrupt),
        Ended::Terminated => stopped(Signal::Terminate),
    }
}

/// Whether clients of a server need a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Everybody who can connect is served.
    None,
    /// Clients send a key.
    Needed,
}

impl Keys {
    /// Whether these settings have keys.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        if config.keys.is_some() { Self::Needed } else { Self::None }
    }
}

/// Lets this process open a file for each connection, as far as the system allows.
pub(crate) fn allow_connections(connections: usize) {
    /// Files besides connections.
    const OTHERS: u64 = 64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (connections as u64).saturating_add(OTHERS).min(maximum.unwrap_or(u64::MAX));
    if current.is_some_and(|current| current < wanted) {
        // With fewer files, connections wait until others are closed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
