//! Where rank 0 listens, and where the others find it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use super::{JoinOptions, PortChoice};
use crate::{Error, LaunchEnv, Result};

/// Where the ranks of a run meet.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    /// As it was told, for messages.
    name: String,
    /// All ranks are on this machine.
    pub(crate) on_one_machine: bool,
    /// The port.
    pub(crate) port: u16,
}

/// Where the ranks of a run meet.
///
/// # Errors
/// A launcher that named no place, or a port that has none after it.
pub(crate) fn meeting(env: &LaunchEnv, options: &JoinOptions) -> Result<Meeting> {
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
    Ok(Meeting { name: rendezvous.address.clone(), on_one_machine: env.local_size == env.world_size, port })
}

impl Meeting {
    /// Rank 0's addresses, at least one.
    ///
    /// # Errors
    /// [`Error::Address`]: a name that stands for none, or only for this machine where ranks are on several.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>> {
        if self.on_one_machine {
            return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)]);
        }
        let wrong = |reason: String| Error::Address { address: self.name.clone(), reason };
        let all = (self.name.as_str(), self.port).to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        // A machine's own name is often an alias of the loopback address in its /etc/hosts: of no use to the others.
        let outside: Vec<SocketAddr> = all.filter(|address| !address.ip().is_loopback()).collect();
        match outside.is_empty() {
            true => Err(wrong("it stands for this machine alone; name rank 0's IP address in MASTER_ADDR".into())),
            false => Ok(outside),
        }
    }

    /// Listens at the first of rank 0's addresses that this machine has.
    ///
    /// # Errors
    /// [`Error::Address`] with what the system says.
    pub(crate) fn listen(&self) -> Result<TcpListener> {
        TcpListener::bind(self.addresses()?.as_slice()).map_err(|error| Error::Address {
            address: format!("{} port {}", self.name, self.port),
            reason: match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program listens there; choose another port with SPAG_PORT, the same on every rank".into()
                }
                std::io::ErrorKind::AddrNotAvailable => {
                    "this machine, on which rank 0 runs, does not have that address; see MASTER_ADDR".into()
                }
                _ => error.to_string(),
            },
        })
    }

    /// In words, for messages about ranks that do not come.
    pub(crate) fn describe(&self) -> String {
        match self.on_one_machine {
            true => format!(
                "127.0.0.1 port {} (all ranks are taken to be on this machine, as the launcher says nothing else)",
                self.port
            ),
            false => format!("{} port {}", self.name, self.port),
        }
    }
}
