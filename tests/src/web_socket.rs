//! A client of WebSockets that can also send what no client should.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A connection that was upgraded.
pub struct WebSocket {
    stream: TcpStream,
}

/// What a server sends.
#[derive(Debug, PartialEq)]
pub enum Received {
    /// A message.
    Json(Value),
    /// A close frame: code and reason.
    Closed(u16, String),
    /// The end of the connection without a close frame.
    End,
}

/// Opcodes of frames.
pub mod opcode {
    /// A text.
    pub const TEXT: u8 = 1;
    /// Bytes.
    pub const BINARY: u8 = 2;
    /// The end.
    pub const CLOSE: u8 = 8;
    /// A question whether the other side lives.
    pub const PING: u8 = 9;
    /// Its answer.
    pub const PONG: u8 = 10;
}

impl WebSocket {
    /// Asks for an upgrade of `path`, with further header lines. An error is the status and what follows it.
    pub fn connect(address: SocketAddr, path: &str, headers: &str) -> Result<Self, String> {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        // The answer to this key in RFC 6455.
        if head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") {
            Ok(Self { stream })
        } else {
            Err(head)
        }
    }

    /// Sends a frame of a client: masked, whole.
    pub fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.send_bytes(&frame);
    }

    /// Sends any bytes. A server that has closed the connection does not take them.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends JSON and returns the answer.
    pub fn ask(&mut self, message: &Value) -> Value {
        self.ask_text(&message.to_string())
    }

    /// Sends a text and returns the answer.
    pub fn ask_text(&mut self, message: &str) -> Value {
        self.send(opcode::TEXT, message.as_bytes());
        match self.receive() {
            Received::Json(answer) => answer,
            other => panic!("{message} is answered by {other:?}"),
        }
    }

    /// The next message or the end. Pings and pongs are skipped.
    pub fn receive(&mut self) -> Received {
        loop {
            let Some((opcode, payload)) = self.frame() else { return Received::End };
            match opcode {
                opcode::TEXT => return Received::Json(serde_json::from_slice(&payload).unwrap()),
                opcode::CLOSE => {
                    let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                    let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned();
                    return Received::Closed(code, reason);
                }
                _ => {}
            }
        }
    }

    /// The next frame, unless the connection has ended.
    pub fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = self.read(2)?;
        assert_eq!(head[1] & 0x80, 0, "a server masks no frames");
        let length = match head[1] {
            126 => u64::from(u16::from_be_bytes(self.read(2)?.try_into().unwrap())),
            127 => u64::from_be_bytes(self.read(8)?.try_into().unwrap()),
            length => u64::from(length),
        };
        Some((head[0] & 0xf, self.read(length as usize)?))
    }

    fn read(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server is silent")
            }
            Err(_) => None,
        }
    }
}
