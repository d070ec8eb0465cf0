//! The group itself: what callers hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use cudarc::driver::{CudaEvent, CudaStream};

use super::communicator::{Communicator, ID_LEN, Work, bind, driver, new_id, summed, version};
use super::flight::Flight;
use super::memory::address;
use super::watch::{Log, watch};
use crate::tcp::{Fault, Place, Shared};
use crate::{Collective, Error, JoinOptions, LaunchEnv, Pending, ProcessGroup, Result, TcpGroup, Traffic};
use crate::{agree, text_of_first};

/// How often a host that waits looks whether the group has failed.
const GLANCE: Duration = Duration::from_millis(50);
/// How long the end of the group waits for a thread that is inside a call of NCCL.
const PATIENCE_AT_END: Duration = Duration::from_secs(2);

/// Ranks with buffers on NVIDIA GPUs, one GPU a rank; buffers on the CPU go over TCP.
#[derive(Debug)]
pub struct NcclGroup {
    inner: TcpGroup,
    compute: Arc<CudaStream>,
    stream: Arc<CudaStream>,
    communicator: Option<Arc<Communicator>>,
    log: Arc<Log>,
    /// `None` while it is dropped.
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Vec<JoinHandle<()>>,
    sent: AtomicU64,
    received: AtomicU64,
}

/// A collective in line.
struct Job {
    collective: Collective,
    buffer: Tensor,
    address: u64,
    /// The device has done what it was given before.
    ready: CudaEvent,
    handed_over: Sender<Result<Flight>>,
}

impl NcclGroup {
    /// Joins the other ranks that `env` speaks of, each with a device of its own.
    ///
    /// # Errors
    /// As [`TcpGroup::join`]; a device that is no GPU; ranks with different versions of NCCL; and what NCCL says.
    pub fn join(env: &LaunchEnv, options: &JoinOptions, device: &Device) -> Result<Self> {
        let Device::Cuda(cuda) = device else {
            return Err(Error::Nccl { what: "joining", reason: "the device is no NVIDIA GPU".into() });
        };
        let compute = cuda.cuda_stream();
        let stream = compute.context().new_stream().map_err(driver("a stream for collectives"))?;
        let inner = TcpGroup::join(env, options)?;
        let shared = Arc::clone(inner.shared());
        let mut group = Self {
            inner,
            compute,
            stream: Arc::clone(&stream),
            communicator: None,
            log: Arc::new(Log::default()),
            jobs: Mutex::new(None),
            threads: Vec::new(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        };
        group.meet(&shared, options.collective_timeout).inspect_err(|error| group.inner.abort(&error.to_string()))?;
        Ok(group)
    }

    fn meet(&mut self, shared: &Arc<Shared>, patience: Duration) -> Result<()> {
        agree(&self.inner, &[("the version of NCCL", version()?.to_string())])?;
        let own = if self.rank() == 0 { hexadecimal(&new_id()?) } else { String::new() };
        let id = from_hexadecimal(&text_of_first(&self.inner, &own)?)
            .ok_or_else(|| Error::Nccl { what: "joining", reason: "rank 0 sent no id".into() })?;
        let (sender, jobs) = mpsc::channel();
        let (ready, joined) = mpsc::channel();
        let conductor = Conductor {
            place: shared.place,
            shared: Arc::clone(shared),
            log: Arc::clone(&self.log),
            stream: Arc::clone(&self.stream),
            compute: Arc::clone(&self.compute),
        };
        // NCCL waits for all ranks in there, without an end when one is gone: on a thread that can be left behind.
        self.threads.push(thread("nccl", move || {
            match Communicator::join(conductor.place, id, &conductor.stream).map(Arc::new) {
                Ok(communicator) => {
                    let _ = ready.send(Ok(Arc::clone(&communicator)));
                    conductor.conduct(&communicator, &jobs);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?);
        let communicator = wait(&joined, shared)??;
        let (log, shared, watched) = (Arc::clone(&self.log), Arc::clone(shared), Arc::clone(&communicator));
        self.threads.push(thread("nccl-watch", move || watch(&watched, &shared, &log, patience))?);
        self.communicator = Some(communicator);
        self.jobs = Mutex::new(Some(sender));
        Ok(())
    }

    /// Bytes as they go over a ring.
    fn count(&self, collective: &Collective) {
        let Some(buffer) = collective.buffer() else { return };
        let size = self.size() as u64;
        let bytes = (buffer.elem_count() * buffer.dtype().size_in_bytes()) as u64;
        let around = bytes * (size - 1) / size;
        let (sent, received) = match collective {
            Collective::AllReduce(_) => (2 * around, 2 * around),
            Collective::ReduceScatter(_) | Collective::AllGather(_) => (around, around),
            Collective::Broadcast(_, root) => {
                let is_last = (self.rank() + 1) % self.size() == *root;
                (if is_last { 0 } else { bytes }, if self.rank() == *root { 0 } else { bytes })
            }
            Collective::Barrier => (0, 0),
        };
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.received.fetch_add(received, Ordering::Relaxed);
    }

    fn start_on_gpu(&self, collective: Collective, buffer: Tensor) -> Result<Pending> {
        let sums = matches!(collective, Collective::AllReduce(_) | Collective::ReduceScatter(_));
        if sums && summed(buffer.dtype()).is_none() {
            let reason = format!("numbers of type {} are not summed", buffer.dtype().as_str());
            return Err(Error::Buffer { operation: collective.name(), reason });
        }
        let shared = self.inner.shared();
        if let Some(fault) = shared.fault() {
            return Err(fault.into());
        }
        if buffer.elem_count() == 0 {
            return Ok(Pending::done());
        }
        self.count(&collective);
        let (handed_over, flight) = mpsc::channel();
        {
            // One at a time: the order of collectives is that of the events.
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let address = address(&buffer, &self.stream)?;
            let ready = self.compute.record_event(None).map_err(driver("an event"))?;
            let job = Job { collective, buffer, address, ready, handed_over };
            let sent = jobs.as_ref().map(|jobs| jobs.send(job));
            sent.and_then(Result::ok).ok_or_else(|| ended(self.rank()))?;
        }
        let shared = Arc::clone(shared);
        Ok(Pending::new(move || {
            wait(&flight, &shared)??.land()?;
            // What was handed over before the group failed has no result.
            shared.fault().map_or(Ok(()), |fault| Err(fault.into()))
        }))
    }
}

/// Waits for another thread's answer, but not beyond the group's failure.
fn wait<T>(answer: &Receiver<T>, shared: &Shared) -> Result<T> {
    loop {
        match answer.recv_timeout(GLANCE) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(shared.fault().map_or_else(|| ended(shared.place.rank), Error::from));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(fault) = shared.fault() {
                    return Err(fault.into());
                }
            }
        }
    }
}

fn ended(rank: usize) -> Error {
    Error::Lost { rank, reason: "the thread that does its collectives has ended".into() }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| Error::System { what: "a thread for the group", reason: error.to_string() })
}

/// The thread that calls NCCL, so that no call of it can hold up the caller.
struct Conductor {
    place: Place,
    shared: Arc<Shared>,
    log: Arc<Log>,
    stream: Arc<CudaStream>,
    compute: Arc<CudaStream>,
}

impl Conductor {
    fn conduct(&self, communicator: &Communicator, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let handed_over = job.handed_over.clone();
            let result = match self.shared.fault() {
                Some(fault) => Err(fault.into()),
                None => self.hand_over(communicator, job),
            };
            if let Err(error) = &result {
                // The others wait for this rank's data; the first reason stays.
                self.shared.raise(Fault::aborted(self.place.rank, error.to_string()));
            }
            // Nobody waits for it: its flight makes the device wait when it is dropped.
            let _ = handed_over.send(result);
        }
    }

    fn hand_over(&self, communicator: &Communicator, job: Job) -> Result<Flight> {
        bind(&self.stream)?;
        self.stream.wait(&job.ready).map_err(driver("an event"))?;
        let Job { collective, buffer, address, .. } = job;
        let work = Work { collective: &collective, address, place: self.place, stream: &self.stream };
        communicator.enqueue(&work)?;
        let done = Arc::new(self.stream.record_event(None).map_err(driver("an event"))?);
        self.log.note(collective.name(), Arc::clone(&done));
        Ok(Flight::new(Arc::clone(&self.compute), done, buffer))
    }
}

impl ProcessGroup for NcclGroup {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(self.size())?;
        match collective.buffer().cloned() {
            Some(buffer) if buffer.device().is_cuda() => self.start_on_gpu(collective, buffer),
            _ => self.inner.start(collective),
        }
    }

    fn traffic(&self) -> Traffic {
        let inner = self.inner.traffic();
        Traffic {
            sent: inner.sent + self.sent.load(Ordering::Relaxed),
            received: inner.received + self.received.load(Ordering::Relaxed),
        }
    }

    fn abort(&self, reason: &str) {
        self.inner.abort(reason);
    }
}

impl Drop for NcclGroup {
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_failed = self.inner.shared().has_failed();
        if let (Some(communicator), false) = (&self.communicator, has_failed) {
            // The thread is done with its jobs when it has dropped its share; then the stream ends them.
            let conductors = self.threads.len().min(1);
            self.threads.drain(..conductors).for_each(|thread| drop(thread.join()));
            let _ = self.stream.synchronize();
            communicator.destroy();
        }
        let deadline = Instant::now() + PATIENCE_AT_END;
        while has_failed && Instant::now() < deadline && self.threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(GLANCE);
        }
        self.log.stop();
        // One that is inside a call of NCCL is left behind: the process is about to end.
        self.threads.drain(..).filter(|thread| !has_failed || thread.is_finished()).for_each(|thread| {
            let _ = thread.join();
        });
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<[u8; ID_LEN]> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = text.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}
