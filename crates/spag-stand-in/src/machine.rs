//! The state behind the C interface, one per process.

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::slice;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::capture::{Capture, Graph};
use crate::fault::fault;
use crate::kernel::Function;
use crate::memory::DeviceMemory;
use crate::order::Clock;
use crate::product::Handle;
use crate::queue::{Queue, Signal, Task};
use crate::result::Error;
use crate::work::Work;

/// Settings of the devices, from environment variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Compute capability: 90 for 9.0.
    pub(crate) capability: i32,
    pub(crate) devices: i32,
    pub(crate) memory: usize,
}

impl Settings {
    fn from_environment() -> Self {
        fn number(name: &str, default: usize) -> usize {
            match env::var(name) {
                Ok(text) => text.parse().unwrap_or_else(|_| fault!("{name}={text:?} is no number")),
                Err(_) => default,
            }
        }
        let capability = number("STAND_IN_CAPABILITY", 90);
        if ![80, 86, 89, 90].contains(&capability) {
            fault!("STAND_IN_CAPABILITY={capability} is not 80, 86, 89 or 90");
        }
        Self {
            capability: capability as i32,
            devices: number("STAND_IN_DEVICES", 8) as i32,
            memory: number("STAND_IN_MEMORY", 8 << 30),
        }
    }

    /// Maximum shared memory per block, in bytes.
    pub(crate) fn shared_bytes(&self) -> usize {
        match self.capability {
            80 => 163 << 10,
            90 => 227 << 10,
            _ => 99 << 10,
        }
    }
}

/// A stream.
pub(crate) struct Stream {
    /// Counted from 0 over all devices.
    pub(crate) number: usize,
    pub(crate) queue: Arc<Queue>,
    pub(crate) clock: Clock,
    pub(crate) capture: Option<Capture>,
}

/// An event.
#[derive(Default)]
pub(crate) struct Event {
    pub(crate) signal: Arc<Signal>,
    /// Number of times it was recorded.
    pub(crate) recorded: u64,
    /// Work known to be done when it was last recorded.
    pub(crate) clock: Clock,
    /// Whether it was last recorded in a capture.
    pub(crate) captured: bool,
}

/// A copy between the device and page-locked host memory.
pub(crate) struct HostUse {
    pub(crate) bytes: Range<usize>,
    pub(crate) stream: usize,
    pub(crate) number: u64,
    pub(crate) what: &'static str,
    /// Digest of the source of a host-to-device copy.
    pub(crate) digest: Option<u64>,
}

impl HostUse {
    /// Ends the process if the source has changed since the copy was issued, whether or not the copy has run.
    pub(crate) fn check(&self) {
        if self.digest.is_some_and(|before| digest(&self.bytes) != before) {
            fault!("page-locked memory of the host changed before its copy to the device was waited for");
        }
    }
}

/// Digest of host memory.
pub(crate) fn digest(bytes: &Range<usize>) -> u64 {
    let mut hasher = DefaultHasher::new();
    // SAFETY: a copy's contract keeps that many bytes of host memory until the copy is waited for.
    hasher.write(unsafe { slice::from_raw_parts(bytes.start as *const u8, bytes.len()) });
    hasher.finish()
}

/// The devices and the objects created on them. Handles are numbers, not addresses, so that invalid ones are detected.
pub(crate) struct Machine {
    pub(crate) settings: Settings,
    pub(crate) initialized: bool,
    /// Retain count of each device's primary context.
    pub(crate) contexts: HashMap<u64, u32>,
    pub(crate) streams: HashMap<u64, Stream>,
    pub(crate) events: HashMap<u64, Event>,
    pub(crate) functions: HashMap<u64, Function>,
    pub(crate) graphs: HashMap<u64, Arc<Graph>>,
    pub(crate) products: HashMap<u64, Handle>,
    pub(crate) memory: DeviceMemory,
    /// Page-locked host memory.
    pub(crate) registered: HashMap<usize, usize>,
    pub(crate) host_uses: Vec<HostUse>,
    /// Work that the host has waited for.
    pub(crate) host: Clock,
    handles: u64,
    stream_count: usize,
}

static MACHINE: LazyLock<Mutex<Machine>> = LazyLock::new(|| {
    let settings = Settings::from_environment();
    Mutex::new(Machine {
        settings,
        initialized: false,
        contexts: HashMap::new(),
        streams: HashMap::new(),
        events: HashMap::new(),
        functions: HashMap::new(),
        graphs: HashMap::new(),
        products: HashMap::new(),
        memory: DeviceMemory::new(settings.memory),
        registered: HashMap::new(),
        host_uses: Vec::new(),
        host: Clock::default(),
        handles: 0x1000,
        stream_count: 0,
    })
});

thread_local! {
    /// The context bound to this thread; 0 if none is.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The machine, for one call.
pub(crate) fn machine() -> MutexGuard<'static, Machine> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Binds a context to this thread.
pub(crate) fn set_current(context: u64) {
    CURRENT.set(context);
}

/// The context bound to this thread, or 0.
pub(crate) fn current() -> u64 {
    CURRENT.get()
}

impl Machine {
    /// A new handle.
    pub(crate) fn handle(&mut self) -> u64 {
        self.handles += 8;
        self.handles
    }

    /// Fails if this thread has no existing context; required by most calls.
    pub(crate) fn need_context(&self) -> Result<(), Error> {
        if self.contexts.get(&current()).is_some_and(|retained| *retained > 0) {
            Ok(())
        } else {
            Err(Error::InvalidContext)
        }
    }

    /// Fails if this thread is capturing a graph, and invalidates the capture: for calls that are not allowed in
    /// one.
    pub(crate) fn need_no_capture(&mut self) -> Result<(), Error> {
        let own = |capture: &&mut Capture| capture.owner == thread::current().id();
        match self.streams.values_mut().filter_map(|stream| stream.capture.as_mut()).find(own) {
            Some(capture) => {
                capture.invalid = true;
                Err(Error::CaptureUnsupported)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn create_stream(&mut self) -> u64 {
        let number = self.stream_count;
        self.stream_count += 1;
        let handle = self.handle();
        let stream = Stream { number, queue: Queue::start(number), clock: Clock::default(), capture: None };
        self.streams.insert(handle, stream);
        handle
    }

    pub(crate) fn stream(&mut self, handle: u64) -> Result<&mut Stream, Error> {
        find(&mut self.streams, handle)
    }

    /// Submits work to a stream, or records it into the stream's graph. Returns the work's number in the stream's clock.
    pub(crate) fn submit(&mut self, stream: u64, work: Work) -> Result<u64, Error> {
        let state = find(&mut self.streams, stream)?;
        if let Some(capture) = &mut state.capture {
            capture.record(work)?;
            return Ok(0);
        }
        // Ordered after all work that the host has waited for.
        state.clock.join(&self.host);
        let at = state.clock.advance(state.number);
        for access in &work.accesses {
            self.memory.enter(access, state.number, &state.clock, &work.what);
        }
        state.queue.push(Task::Run(work));
        Ok(at)
    }

    /// Submits the work of a graph to a stream.
    pub(crate) fn replay(&mut self, graph: &Graph, stream: u64) -> Result<(), Error> {
        if self.stream(stream)?.capture.is_some() {
            fault!("a graph is launched in the capture of another, which is not part of this stand-in");
        }
        graph.works.iter().try_for_each(|work| self.submit(stream, work.clone()).map(drop))
    }

    /// Records that the host has waited for all work of a clock.
    pub(crate) fn host_waited(&mut self, clock: &Clock) {
        self.host.join(clock);
        let host = &self.host;
        let (waited, open) = self.host_uses.drain(..).partition(|each| host.of(each.stream) >= each.number);
        self.host_uses = open;
        let waited: Vec<HostUse> = waited;
        waited.iter().for_each(HostUse::check);
    }

    /// Whether this host range is page-locked.
    pub(crate) fn is_registered(&self, bytes: &Range<usize>) -> bool {
        self.registered.iter().any(|(start, length)| *start <= bytes.start && bytes.end <= start + length)
    }
}

/// A stream by its handle.
fn find(streams: &mut HashMap<u64, Stream>, handle: u64) -> Result<&mut Stream, Error> {
    if handle == 0 {
        fault!("the default stream is not part of this stand-in");
    }
    streams.get_mut(&handle).ok_or(Error::InvalidHandle)
}
