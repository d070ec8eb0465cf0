//! Hostile clients: they hold connections open, send garbage, or send too much.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Pause between the bytes of a slow client.
const PAUSE: Duration = Duration::from_millis(200);
/// Body size of a client that sends too much: more than a server accepts by default.
const LARGE: usize = 12 << 20;

/// Attacks run while other clients are served, each repeated until stopped.
#[derive(Clone, Copy)]
enum Attack {
    /// Endless headers, one byte at a time.
    SlowHeaders,
    /// An endless body, one byte at a time.
    SlowBody,
    /// Bytes that are not HTTP.
    Garbage,
    /// A malformed JSON body.
    BrokenJson,
    /// A body larger than the server accepts.
    Large,
}

const ATTACKS: [Attack; 5] =
    [Attack::SlowHeaders, Attack::SlowBody, Attack::Garbage, Attack::BrokenJson, Attack::Large];

/// Starts `number` hostile clients, which end soon after `stop` is set.
pub(crate) fn start(number: usize, address: &str, stop: &Arc<AtomicBool>) -> Result<Vec<JoinHandle<()>>, String> {
    let spawn = |index: usize| {
        let (attack, address, stop) = (ATTACKS[index % ATTACKS.len()], address.to_owned(), stop.clone());
        let run = move || {
            while !stop.load(Ordering::Relaxed) {
                // The server is expected to close connections.
                if let Ok(stream) = TcpStream::connect(&address) {
                    let _ = once(attack, stream, &stop);
                }
                thread::sleep(PAUSE);
            }
        };
        thread::Builder::new().stack_size(super::STACK).spawn(run).map_err(|e| e.to_string())
    };
    (0..number).map(spawn).collect()
}

fn once(attack: Attack, mut stream: TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PAUSE))?;
    let head = |length: usize| {
        format!(
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    match attack {
        Attack::SlowHeaders => {
            stream.write_all(b"POST /v1/completions HTTP/1.1\r\nX-Slow: ")?;
            drip(&mut stream, stop)
        }
        Attack::SlowBody => {
            stream.write_all(head(1000).as_bytes())?;
            drip(&mut stream, stop)
        }
        Attack::Garbage => {
            stream.write_all(&[0, 255, b'\r', b'\n', 7, b'{', 128, b'\n', b'\n'].repeat(500))?;
            ignore(&mut stream)
        }
        Attack::BrokenJson => {
            let body = r#"{"prompt": [[[[[[1, 2, "max_tokens": -1"#;
            stream.write_all(head(body.len()).as_bytes())?;
            stream.write_all(body.as_bytes())?;
            ignore(&mut stream)
        }
        Attack::Large => {
            stream.write_all(head(LARGE).as_bytes())?;
            let part = [b' '; 1 << 16];
            for _ in 0..LARGE / part.len() {
                stream.write_all(&part)?;
            }
            ignore(&mut stream)
        }
    }
}

/// Sends a byte at a time.
fn drip(stream: &mut TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(b"a")?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Reads a part of the answer.
fn ignore(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut answer = [0; 4096];
    stream.read(&mut answer).map(drop)
}
