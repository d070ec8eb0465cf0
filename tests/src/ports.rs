//! Ports for processes that take theirs as an argument.

use std::net::{TcpListener, TcpStream};

/// A port of 127.0.0.1 that a started process can listen on.
///
/// A connection is made and closed on it, which leaves the port in TIME_WAIT for a minute. In that minute the system gives
/// it to no socket that asks for any port, and a listener that names it (with SO_REUSEADDR, as Rust and PyTorch do) gets
/// it. So two tests never have the same port.
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

fn reserve(port: u16) -> std::io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let address = listener.local_addr()?;
    let client = TcpStream::connect(address)?;
    // The side that closes first keeps the port.
    drop(listener.accept()?);
    drop(client);
    Ok(address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_given_to_no_other_socket() {
        let port = reserve_port();
        // In all more than half of the system's ports.
        for _ in 0..40 {
            let others: Vec<_> = (0..400).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
            assert!(others.iter().all(|other| other.local_addr().unwrap().port() != port));
        }
        TcpListener::bind(("127.0.0.1", port)).unwrap();
        TcpListener::bind(("0.0.0.0", port)).unwrap();
    }
}
