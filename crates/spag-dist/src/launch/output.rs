//! Copies the output of the ranks line by line, prefixed with the rank.

use std::io::{self, Read, Write};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::{LaunchError, Result};
use super::supervise::POLL_INTERVAL;

/// Longer lines are split, so that memory is bounded.
const MAX_LINE: usize = 1 << 20;
/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// The threads that copy output.
#[derive(Debug, Default)]
pub(super) struct Output(Vec<JoinHandle<()>>);

impl Output {
    /// Copies `from` to the writer returned by `to`, until either is closed.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn copy<W: Write>(
        &mut self,
        rank: usize,
        mut from: impl Read + Send + 'static,
        to: impl Fn() -> W + Send + 'static,
    ) -> Result<()> {
        // On failure the pipe closes, which the rank notices.
        let copy = move || drop(copy_lines(rank, &mut from, to));
        let started = thread::Builder::new().name(format!("output of rank {rank}")).spawn(copy);
        self.0.push(started.map_err(|source| LaunchError::Start { rank, source })?);
        Ok(())
    }

    /// Waits until all output is copied or the timeout expires: a process that outlives its rank may hold the pipe
    /// open.
    pub(super) fn finish(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Copies whole lines, each in one write and prefixed with its rank.
fn copy_lines<W: Write>(rank: usize, from: &mut impl Read, to: impl Fn() -> W) -> io::Result<()> {
    let mut lines = Lines::new(rank);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let ready = match chunk.get(..read) {
            Some(bytes) if read > 0 => lines.take(bytes),
            _ => lines.end(),
        };
        if !ready.is_empty() {
            let mut to = to();
            to.write_all(&ready)?;
            to.flush()?;
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// Splits bytes into lines with a prefix. A carriage return ends a line too, so that every state of a progress bar is a
/// line; `\r\n` ends one line.
struct Lines {
    prefix: Vec<u8>,
    /// An incomplete line.
    line: Vec<u8>,
    after_return: bool,
}

impl Lines {
    fn new(rank: usize) -> Self {
        Self { prefix: format!("[rank {rank}] ").into_bytes(), line: Vec::new(), after_return: false }
    }

    /// Appends bytes and returns the lines that are complete.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut ready = Vec::with_capacity(bytes.len() + self.line.len() + self.prefix.len());
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match part.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                _ => (part, None),
            };
            for piece in text.chunks(MAX_LINE) {
                if self.line.len() + piece.len() > MAX_LINE {
                    self.end_line(&mut ready);
                }
                self.line.extend_from_slice(piece);
            }
            let second_of_two = self.after_return && text.is_empty() && end == Some(b'\n');
            if end.is_some() && !second_of_two {
                self.end_line(&mut ready);
            }
            self.after_return = end == Some(b'\r');
        }
        ready
    }

    /// The last line, if it is not terminated.
    fn end(&mut self) -> Vec<u8> {
        let mut ready = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut ready);
        }
        ready
    }

    fn end_line(&mut self, ready: &mut Vec<u8>) {
        ready.extend_from_slice(&self.prefix);
        ready.append(&mut self.line);
        ready.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output for input in pieces of `size`.
    fn copied(bytes: &[u8], size: usize) -> Vec<u8> {
        let mut lines = Lines::new(3);
        let mut out: Vec<u8> = bytes.chunks(size).flat_map(|piece| lines.take(piece)).collect();
        out.extend(lines.end());
        out
    }

    #[test]
    fn lines_do_not_depend_on_the_size_of_reads() {
        let input = b"one\n\ntwo \xff\xfe\r\nbar 1\rbar 2\rdone\r\n\nlast";
        let expected =
            b"[rank 3] one\n[rank 3] \n[rank 3] two \xff\xfe\n[rank 3] bar 1\n[rank 3] bar 2\n[rank 3] done\n\
                         [rank 3] \n[rank 3] last\n";
        for size in 1..=input.len() {
            assert_eq!(copied(input, size), expected, "in pieces of {size}");
        }
        assert!(copied(b"", 1).is_empty());
    }

    #[test]
    fn long_lines_are_split_without_loss() {
        let input = vec![b'x'; 2 * MAX_LINE + 5];
        let out = copied(&input, 1000);
        assert_eq!(out.iter().filter(|byte| **byte == b'x').count(), input.len());
        let longest = out.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
        assert!(longest <= MAX_LINE + "[rank 3] ".len());
        assert!(
            out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).all(|line| line.starts_with(b"[rank"))
        );
    }
}
