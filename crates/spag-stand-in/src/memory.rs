//! Device memory, with each allocation between guard pages.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use crate::fault::fault;
use crate::order::{Clock, History, Now};
use crate::result::Error;
use crate::work::Access;

/// Set in device addresses, so that the host cannot dereference them by mistake.
const DEVICE: u64 = 1 << 56;
const PAGE: usize = 4096;
/// Larger allocations are not filled with NaNs but left zero: their pages are mapped on first use.
const MOST_POISONED: usize = 16 << 20;

/// The address at which the device sees page-locked memory of the host.
pub(crate) fn device_address(at: usize) -> u64 {
    at as u64 | DEVICE
}

/// The address at which the host sees it.
pub(crate) fn host_address(address: u64) -> usize {
    (address & !DEVICE) as usize
}

/// Host pages of one allocation. Unmapped when the last work that uses them has run.
#[derive(Debug)]
struct Pages {
    base: *mut u8,
    total: usize,
}

// SAFETY: memory shared by streams, as on a device; their order is checked.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `bytes` bytes with a guard page on both sides. Also returns their address; they end at most 15 bytes before the
    /// last page.
    fn new(bytes: usize) -> Result<(Arc<Self>, *mut u8), Error> {
        let inner = bytes.checked_next_multiple_of(PAGE).ok_or(Error::OutOfMemory)?;
        let total = inner + 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new pages, which nothing else uses.
        let base = unsafe { libc::mmap(ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::OutOfMemory);
        }
        let pages = Self { base: base.cast(), total };
        let first = pages.base.wrapping_add(PAGE);
        // SAFETY: inside the pages above.
        if unsafe { libc::mprotect(first.cast(), inner, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(Error::OutOfMemory);
        }
        let data = first.wrapping_add((inner - bytes) / 16 * 16);
        if bytes <= MOST_POISONED {
            // SAFETY: `data` has that many bytes.
            unsafe { data.write_bytes(0xff, bytes) };
        }
        Ok((Arc::new(pages), data))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the pages, and nothing uses them any more.
        unsafe { libc::munmap(self.base.cast(), self.total) };
    }
}

/// A part of an allocation; keeps the allocation mapped.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    allocation: u64,
    /// Whether the allocation belongs to a graph, which keeps it.
    of_graph: bool,
    bytes: Range<usize>,
    /// Host address of the first byte.
    at: usize,
    _pages: Arc<Pages>,
}

impl Region {
    /// The host address.
    pub(crate) fn at(&self) -> *mut u8 {
        self.at as *mut u8
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is part of the allocation at this device address.
    pub(crate) fn begins_at(&self, address: u64) -> bool {
        (self.at - self.bytes.start) as u64 | DEVICE == address
    }
}

#[derive(Debug)]
struct Allocation {
    number: u64,
    bytes: usize,
    at: *mut u8,
    pages: Arc<Pages>,
    of_graph: bool,
    history: History,
}

// SAFETY: as for `Pages`.
unsafe impl Send for Allocation {}

/// Allocations of this process.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    limit: usize,
    used: usize,
    peak: usize,
    next: u64,
    /// By device address.
    live: BTreeMap<u64, Allocation>,
    /// Addresses by number.
    addresses: HashMap<u64, u64>,
}

impl DeviceMemory {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: 0, peak: 0, next: 0, live: BTreeMap::new(), addresses: HashMap::new() }
    }

    /// Bytes allocated, and the peak.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.used, self.peak)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Allocates memory and returns its device address.
    pub(crate) fn allocate(&mut self, bytes: usize, of_graph: bool) -> Result<u64, Error> {
        if bytes == 0 {
            return Err(Error::InvalidValue);
        }
        if self.used.saturating_add(bytes) > self.limit {
            return Err(Error::OutOfMemory);
        }
        let (pages, at) = Pages::new(bytes)?;
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        self.next += 1;
        let address = at as u64 | DEVICE;
        let allocation = Allocation { number: self.next, bytes, at, pages, of_graph, history: History::default() };
        self.addresses.insert(allocation.number, address);
        self.live.insert(address, allocation);
        Ok(address)
    }

    /// The whole allocation that begins at an address.
    pub(crate) fn whole(&self, address: u64) -> Result<Region, Error> {
        let allocation = self.live.get(&address).ok_or(Error::InvalidValue)?;
        Ok(self.part(allocation, 0..allocation.bytes))
    }

    fn part(&self, allocation: &Allocation, bytes: Range<usize>) -> Region {
        Region {
            allocation: allocation.number,
            of_graph: allocation.of_graph,
            at: allocation.at as usize + bytes.start,
            bytes,
            _pages: allocation.pages.clone(),
        }
    }

    /// Frees an allocation. Work submitted before keeps its pages.
    pub(crate) fn free(&mut self, address: u64) {
        if let Some(allocation) = self.live.remove(&address) {
            self.addresses.remove(&allocation.number);
            self.used -= allocation.bytes;
        }
    }

    /// The memory used by `what` at an address, to the end of its allocation if no length is given. Ends the process if it is
    /// not allocated.
    pub(crate) fn region(&self, address: u64, bytes: Option<usize>, what: &str) -> Region {
        let found = self.live.range(..=address).next_back();
        if let Some((base, allocation)) = found {
            let start = (address - base) as usize;
            let end = bytes.map_or(allocation.bytes, |bytes| start + bytes);
            if start <= end && end <= allocation.bytes {
                return self.part(allocation, start..end);
            }
        }
        fault!("{what} uses {address:#x}, which is not memory of the device, or is freed");
    }

    /// Checks that the memory is still allocated and that this use is ordered, and records the use.
    pub(crate) fn enter(&mut self, access: &Access, stream: usize, clock: &Clock, what: &str) {
        let Region { allocation, of_graph, bytes, .. } = &access.region;
        match self.addresses.get(allocation).and_then(|address| self.live.get_mut(address)) {
            Some(allocation) => {
                allocation.history.enter(&Now { bytes: bytes.clone(), how: access.how, stream, clock, what });
            }
            None if *of_graph => {}
            None => fault!("{what} uses memory that was freed after it was captured"),
        }
    }
}
