//! The address on which rank 0 listens.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use super::{JoinOptions, PortChoice};
use crate::{Error, LaunchEnv, Result};

/// Where rank 0 listens.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// MASTER_ADDR.
    host: String,
    /// All ranks are on this machine: 127.0.0.1 is used instead of the host.
    on_one_machine: bool,
    /// 0 for any free port.
    pub(crate) port: u16,
}

impl Endpoint {
    /// # Errors
    /// The environment has no rendezvous, or a port without a next one.
    pub(crate) fn new(env: &LaunchEnv, options: &JoinOptions) -> Result<Self> {
        let Some(rendezvous) = &env.rendezvous else {
            return Err(Error::MissingVariable { name: "MASTER_ADDR", implied_by: "WORLD_SIZE" });
        };
        let port = match options.port {
            PortChoice::Rendezvous => Some(rendezvous.port),
            PortChoice::AfterRendezvous => rendezvous.port.checked_add(1),
            PortChoice::Fixed(port) => Some(port),
        };
        let Some(port) = port else {
            return Err(Error::NotAPort { name: "MASTER_PORT", value: format!("{} + 1", rendezvous.port) });
        };
        Ok(Self { host: rendezvous.address.clone(), on_one_machine: env.local_size == env.world_size, port })
    }

    /// Rank 0's addresses, at least one.
    ///
    /// # Errors
    /// [`Error::Address`]: an unknown name, or a loopback address although ranks are on several machines.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>> {
        if self.on_one_machine {
            return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)]);
        }
        let wrong = |reason: String| Error::Address { address: self.host.clone(), reason };
        let all = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        // /etc/hosts often maps a machine's own name to the loopback address, which other machines cannot use.
        let outside: Vec<SocketAddr> = all.filter(|address| !address.ip().is_loopback()).collect();
        if outside.is_empty() {
            return Err(wrong(
                "it is a loopback address on this machine; set MASTER_ADDR to rank 0's IP address".into(),
            ));
        }
        Ok(outside)
    }

    /// Listens on the first of rank 0's addresses that belongs to this machine.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub(crate) fn listen(&self) -> Result<TcpListener> {
        TcpListener::bind(self.addresses()?.as_slice()).map_err(|error| Error::Address {
            address: format!("{} port {}", self.host, self.port),
            reason: match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another program listens there; choose another port with SPAG_PORT, the same on every rank".into()
                }
                io::ErrorKind::AddrNotAvailable => {
                    "this machine, on which rank 0 runs, does not have that address; see MASTER_ADDR".into()
                }
                _ => error.to_string(),
            },
        })
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.on_one_machine {
            write!(f, "127.0.0.1 port {} (the launcher's variables put all ranks on this machine)", self.port)
        } else {
            write!(f, "{} port {}", self.host, self.port)
        }
    }
}
