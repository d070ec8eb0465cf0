//! The rendezvous port of the ranks.

use std::{io, net::Ipv4Addr};

/// MASTER_PORT.
#[derive(Debug)]
pub(super) enum MasterPort {
    Fixed(u16),
    /// Any free port of this machine.
    Reserved(ReservedPort),
}

impl MasterPort {
    pub(super) fn number(&self) -> u16 {
        match self {
            Self::Fixed(number) => *number,
            Self::Reserved(port) => port.number,
        }
    }
}

/// A free port of 127.0.0.1.
///
/// On Linux it stays bound, but not listening, until this is dropped, so the system assigns it to no other socket. A
/// program that sets SO_REUSEADDR, as Rust and PyTorch do, can still listen on it.
#[derive(Debug)]
pub(super) struct ReservedPort {
    number: u16,
    #[cfg(target_os = "linux")]
    _socket: std::os::fd::OwnedFd,
}

impl ReservedPort {
    #[cfg(target_os = "linux")]
    pub(super) fn new() -> io::Result<Self> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = std::net::SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self { number: address.port(), _socket: socket })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Self { number: listener.local_addr()?.port() })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn reserved_port_can_be_listened_on_and_is_given_to_no_other_socket() {
        let port = ReservedPort::new().unwrap().number;
        let reserved = ReservedPort::new().unwrap();
        assert_ne!(port, reserved.number);
        for _ in 0..100 {
            let others: Vec<_> = (0..400).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
            assert!(others.iter().all(|other| other.local_addr().unwrap().port() != reserved.number));
        }
        TcpListener::bind((Ipv4Addr::LOCALHOST, reserved.number)).unwrap();
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, reserved.number)).unwrap();
    }
}
