//! Graphs and stream capture.

use std::collections::HashSet;
use std::thread::{self, ThreadId};

use crate::fault::fault;
use crate::machine::machine;
use crate::memory::DeviceMemory;
use crate::result::Error;
use crate::work::Work;

/// A capture of a stream's work.
pub(crate) struct Capture {
    pub(crate) owner: ThreadId,
    pub(crate) invalid: bool,
    works: Vec<Work>,
    /// Addresses that the graph allocates, and those that it has freed again.
    allocated: Vec<u64>,
    freed: HashSet<u64>,
}

impl Capture {
    pub(crate) fn begin() -> Self {
        let owner = thread::current().id();
        Self { owner, invalid: false, works: Vec::new(), allocated: Vec::new(), freed: HashSet::new() }
    }

    /// Fails if the capture is invalid, and ends the process if another thread is capturing.
    fn check(&self, what: &str) -> Result<(), Error> {
        if self.owner != thread::current().id() {
            fault!("{what} is recorded into the graph that another thread captures");
        }
        if self.invalid { Err(Error::CaptureInvalidated) } else { Ok(()) }
    }

    pub(crate) fn record(&mut self, work: Work) -> Result<(), Error> {
        self.check(&work.what)?;
        for access in &work.accesses {
            if self.freed.iter().any(|address| access.region.begins_at(*address)) {
                fault!("{} uses memory that its graph has freed", work.what);
            }
        }
        self.works.push(work);
        Ok(())
    }

    /// Allocates graph memory, at the same address in every replay.
    pub(crate) fn allocate(&mut self, memory: &mut DeviceMemory, bytes: usize) -> Result<u64, Error> {
        self.check("an allocation")?;
        let address = memory.allocate(bytes, true)?;
        self.allocated.push(address);
        Ok(address)
    }

    /// Frees graph memory. A graph cannot free other allocations.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), Error> {
        self.check("freeing memory")?;
        if !self.allocated.contains(&address) {
            self.invalid = true;
            return Err(Error::InvalidValue);
        }
        self.freed.insert(address);
        Ok(())
    }

    /// Ends the capture. An invalid capture also returns its graph, whose drop frees its memory.
    pub(crate) fn end(self) -> Result<Graph, (Error, Graph)> {
        let graph = Graph { works: self.works, allocated: self.allocated };
        if self.invalid { Err((Error::CaptureInvalidated, graph)) } else { Ok(graph) }
    }
}

/// Captured work. Frees its memory on drop, which must not happen while holding the machine's lock.
pub(crate) struct Graph {
    pub(crate) works: Vec<Work>,
    allocated: Vec<u64>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        let mut machine = machine();
        self.allocated.iter().for_each(|address| machine.memory.free(*address));
    }
}
