//! Ports for processes that take theirs as an argument.

use std::io;

/// A port of 127.0.0.1 that a started process can listen on.
///
/// On Linux it stays bound, but not listening, until the test's process ends, so the system gives it to no other socket, and
/// two tests never have the same. A listener that names it (with SO_REUSEADDR, as Rust and PyTorch do) gets it.
pub fn reserve_port() -> u16 {
    reserve(0).unwrap()
}

/// The first of two consecutive ports, both as [`reserve_port`].
pub fn reserve_two_ports() -> u16 {
    loop {
        let first = reserve_port();
        if first.checked_add(1).is_some_and(|next| reserve(next).is_ok()) {
            return first;
        }
    }
}

#[cfg(target_os = "linux")]
fn reserve(port: u16) -> io::Result<u16> {
    use std::net::{Ipv4Addr, SocketAddr};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    // Afterwards: with it, a port that another test holds could be bound too.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    std::mem::forget(socket);
    Ok(address.port())
}

/// The port is free when this returns. Another process may take it before the test does.
#[cfg(not(target_os = "linux"))]
fn reserve(port: u16) -> io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", port))?.local_addr()?.port())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_is_given_to_no_other_socket() {
        let port = reserve_port();
        assert!(reserve(port).is_err());
        // In all more than half of the system's ports, as listeners and as the clients of one.
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        for _ in 0..40 {
            let others: Vec<_> = (0..400).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
            assert!(others.iter().all(|other| other.local_addr().unwrap().port() != port));
            for _ in 0..400 {
                let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
                assert_ne!(client.local_addr().unwrap().port(), port);
                server.accept().unwrap();
            }
        }
        TcpListener::bind(("127.0.0.1", port)).unwrap();
        TcpListener::bind(("0.0.0.0", port)).unwrap();
    }
}
