//! A group of ranks connected to rank 0.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Collective;
use crate::fault::fault;

/// Bytes of a group's ID, as in NCCL.
pub(crate) const ID_BYTES: usize = 128;
/// Interval at which a pending collective checks for an abort; like NCCL's, it has no timeout.
const POLL: Duration = Duration::from_millis(20);

/// Listeners of groups that this process has created but not joined yet, by port.
static LISTENERS: Mutex<Vec<(u16, TcpListener)>> = Mutex::new(Vec::new());

/// A new group's ID: the port on which its rank 0, this process, will listen.
pub(crate) fn new_id() -> io::Result<[u8; ID_BYTES]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).push((port, listener));
    let mut id = [0; ID_BYTES];
    id[..2].copy_from_slice(&port.to_le_bytes());
    Ok(id)
}

/// A rank's membership in a group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// On rank 0, connections to ranks 1 and up; on the others, to rank 0.
    streams: Vec<TcpStream>,
    /// Number of collectives so far.
    count: AtomicU64,
    failed: AtomicBool,
    aborted: AtomicBool,
}

impl Group {
    /// Waits for all ranks.
    pub(crate) fn join(id: &[u8; ID_BYTES], rank: usize, size: usize) -> io::Result<Self> {
        let port = u16::from_le_bytes([id[0], id[1]]);
        let streams = if rank == 0 { accept(port, size)? } else { vec![connect(port, rank)?] };
        let (failed, aborted) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { rank, size, streams, count: AtomicU64::new(0), failed, aborted })
    }

    /// Whether another rank was lost.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Ends all current and later collectives.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        for stream in &self.streams {
            // It may already be closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Runs a collective with this rank's input `data` and returns its output. If other ranks are missing, waits until the
    /// group is aborted and returns nothing.
    pub(crate) fn run(&self, collective: Collective, data: Vec<u8>) -> Option<Vec<u8>> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let result =
            if self.rank == 0 { self.answer(number, collective, data) } else { self.ask(number, collective, &data) };
        match result {
            Ok(taken) => Some(taken),
            Err(_) => {
                self.failed.store(true, Ordering::Release);
                while !self.aborted.load(Ordering::Acquire) {
                    thread::sleep(POLL);
                }
                None
            }
        }
    }

    fn ask(&self, number: u64, collective: Collective, data: &[u8]) -> io::Result<Vec<u8>> {
        let mut root = &self.streams[0];
        send(root, number, &collective.words(), data)?;
        let mut taken = vec![0; collective.bytes(self.size).1];
        root.read_exact(&mut taken)?;
        Ok(taken)
    }

    fn answer(&self, number: u64, collective: Collective, data: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut given = vec![data];
        for (i, mut stream) in self.streams.iter().enumerate() {
            let (rank, own) = (i + 1, collective.words());
            let mut words = [0u8; 48];
            stream.read_exact(&mut words)?;
            let word = |i: usize| words[8 * i..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let theirs = [word(1), word(2), word(3), word(4)];
            if word(0) != number || theirs != own {
                fault!(
                    "collective {number} differs between ranks: rank 0 calls {collective:?} ({own:?}) and rank {rank} {theirs:?} \
                     as its {}th",
                    word(0)
                );
            }
            let mut data = vec![0; word(5) as usize];
            stream.read_exact(&mut data)?;
            given.push(data);
        }
        let mut results = collective.results(&given)?.into_iter();
        let own = results.next().unwrap_or_default();
        for (mut stream, result) in self.streams.iter().zip(results) {
            stream.write_all(&result)?;
        }
        Ok(own)
    }
}

fn send(mut to: &TcpStream, number: u64, words: &[u64; 4], data: &[u8]) -> io::Result<()> {
    let [kind, count, format, root] = *words;
    let mut message = Vec::with_capacity(48 + data.len());
    for word in [number, kind, count, format, root, data.len() as u64] {
        message.extend(word.to_le_bytes());
    }
    message.extend(data);
    to.write_all(&message)
}

fn accept(port: u16, size: usize) -> io::Result<Vec<TcpStream>> {
    let listener = {
        let mut all = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(other, _)| *other == port);
        at.map(|at| all.swap_remove(at).1).ok_or_else(|| io::Error::other("rank 0 has not named this group"))?
    };
    let mut streams: Vec<Option<TcpStream>> = (1..size).map(|_| None).collect();
    while streams.iter().any(Option::is_none) {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut rank = [0; 8];
        stream.read_exact(&mut rank)?;
        let rank = u64::from_le_bytes(rank) as usize;
        match streams.get_mut(rank.wrapping_sub(1)) {
            Some(place @ None) => *place = Some(stream),
            _ => return Err(io::Error::other(format!("rank {rank} joins twice, or is none of {size}"))),
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

fn connect(port: u16, rank: usize) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.write_all(&(rank as u64).to_le_bytes())?;
    Ok(stream)
}
