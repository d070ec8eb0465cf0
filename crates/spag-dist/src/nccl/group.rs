//! The NCCL process group.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use cudarc::driver::{CudaEvent, CudaStream};

use super::communicator::{Communicator, ID_LEN, Operation, new_id, sum_type, version};
use super::watchdog::{Watched, run_watchdog};
use crate::answer::{POLL_INTERVAL, wait};
use crate::cuda::{Enqueued, StreamPriority, address, bind, driver, new_stream};
use crate::net::thread;
use crate::tcp::{GroupState, RingPosition, thread_ended};
use crate::{Collective, Error, HostGroups, JoinOptions, LaunchEnv, Pending, ProcessGroup, Result, Single, TcpGroup};
use crate::{Traffic, agree, broadcast_text};

/// Time that dropping a failed group waits for a thread inside an NCCL call.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

/// Ranks with one NVIDIA GPU each; CPU buffers are sent over TCP.
#[derive(Debug)]
pub struct NcclGroup {
    tcp: TcpGroup,
    /// Of a collective.
    timeout: Duration,
    compute: Arc<CudaStream>,
    stream: Arc<CudaStream>,
    communicator: Option<Arc<Communicator>>,
    watched: Arc<Watched>,
    /// `None` during drop.
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A collective that has been started.
struct Job {
    collective: Collective,
    buffer: Tensor,
    address: u64,
    /// The compute stream has completed the work before the collective.
    ready: CudaEvent,
    enqueued: Sender<Result<Enqueued>>,
}

impl NcclGroup {
    /// Joins the process group of `env`, with this rank's own device.
    ///
    /// # Errors
    /// As [`TcpGroup::join`]; the device is not an NVIDIA GPU; ranks have different NCCL versions; or an NCCL error.
    pub fn join(env: &LaunchEnv, options: &JoinOptions, device: &Device) -> Result<Self> {
        let Device::Cuda(cuda) = device else {
            return Err(Error::Nccl { what: "joining", reason: "the device is no NVIDIA GPU".into() });
        };
        let tcp = TcpGroup::join(env, options)?;
        let abort = |error: &Error| tcp.abort(&error.to_string());
        version().and_then(|own| agree(&tcp, &[("the version of NCCL", own.to_string())])).inspect_err(abort)?;
        Self::over(tcp, cuda.cuda_stream(), StreamPriority::Default, options.device_timeout)
    }

    /// The ranks of `tcp` with a communicator of their own.
    fn over(tcp: TcpGroup, compute: Arc<CudaStream>, priority: StreamPriority, timeout: Duration) -> Result<Self> {
        let stream = new_stream(&compute, priority).inspect_err(|error| tcp.abort(&error.to_string()))?;
        let state = Arc::clone(tcp.state());
        let mut group = Self {
            tcp,
            timeout,
            compute,
            stream,
            communicator: None,
            watched: Arc::default(),
            jobs: Mutex::new(None),
            threads: Vec::new(),
        };
        group.connect(&state, timeout).inspect_err(|error| group.tcp.abort(&error.to_string()))?;
        Ok(group)
    }

    /// A further communicator on this device.
    fn beside(&self, tcp: TcpGroup, priority: StreamPriority) -> Result<Self> {
        Self::over(tcp, Arc::clone(&self.compute), priority, self.timeout)
    }

    /// Creates the communicator and starts the threads. NCCL has `timeout` to connect the ranks, and each collective to complete.
    fn connect(&mut self, state: &Arc<GroupState>, timeout: Duration) -> Result<()> {
        let own = if self.rank() == 0 { spag_io::hex(&new_id()?) } else { String::new() };
        let id = from_hex(&broadcast_text(&self.tcp, &own)?)
            .ok_or_else(|| Error::Nccl { what: "joining", reason: "rank 0 sent no unique ID".into() })?;
        let (sender, jobs) = mpsc::channel();
        let (ready, joined) = mpsc::channel();
        let runner = CollectiveRunner {
            position: self.tcp.members().position(),
            state: Arc::clone(state),
            watched: Arc::clone(&self.watched),
            stream: Arc::clone(&self.stream),
            compute: Arc::clone(&self.compute),
        };
        // NCCL waits without a timeout for all ranks, so this runs on a thread that can be abandoned.
        let deadline = Instant::now() + timeout;
        self.threads.push(thread("nccl", move || {
            match Communicator::join(runner.position, id, &runner.stream).map(Arc::new) {
                Ok(communicator) => {
                    let _ = ready.send(Ok(Arc::clone(&communicator)));
                    runner.run_collectives(&communicator, &jobs);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?);
        let communicator = wait(&joined, state, Some(deadline))?.ok_or_else(|| {
            let rank = state.position.rank;
            let seconds = timeout.as_secs();
            let why = "NCCL_DEBUG=INFO prints why; NCCL_SOCKET_IFNAME names the network of the hosts";
            Error::lost(
                rank,
                format!("NCCL has not connected its GPU to those of the other ranks within {seconds} s; {why}"),
            )
        })??;
        let (watched, state, stream) = (Arc::clone(&self.watched), Arc::clone(state), Arc::clone(&self.stream));
        let aborted = Arc::clone(&communicator);
        let watchdog = move || run_watchdog(&aborted, &stream, &state, &watched, timeout);
        self.threads.push(thread("nccl-watchdog", watchdog)?);
        self.communicator = Some(communicator);
        self.jobs = Mutex::new(Some(sender));
        Ok(())
    }

    fn start_on_gpu(&self, collective: Collective, buffer: Tensor) -> Result<Pending> {
        let sums = matches!(collective, Collective::AllReduce(_) | Collective::ReduceScatter(_));
        if sums && sum_type(buffer.dtype()).is_none() {
            let reason = format!("numbers of type {} are not summed", buffer.dtype().as_str());
            return Err(Error::Buffer { operation: collective.name(), reason });
        }
        let state = self.tcp.state();
        state.check()?;
        if buffer.elem_count() == 0 {
            return Ok(Pending::done());
        }
        let (sent, received) = collective.ring_traffic(self.rank(), self.size());
        let members = self.tcp.members();
        state.add_traffic(members.scope, members.traffic(sent, received));
        let (enqueued, result) = mpsc::channel();
        {
            // The lock keeps collectives and their events in the same order.
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let address = address(&buffer, &self.stream)?;
            let ready = self.compute.record_event(None).map_err(driver("an event"))?;
            let job = Job { collective, buffer, address, ready, enqueued };
            let sent = jobs.as_ref().map(|jobs| jobs.send(job));
            sent.and_then(Result::ok).ok_or_else(|| thread_ended(state.position.rank))?;
        }
        let state = Arc::clone(state);
        Ok(Pending::new(move || {
            // The watchdog fails the group if it takes too long.
            wait(&result, &state, None)?.ok_or_else(|| thread_ended(state.position.rank))??.wait()?;
            // A collective that was pending when the group failed has no result.
            state.check()
        }))
    }
}

/// The thread that calls NCCL, so that no NCCL call can block the caller.
struct CollectiveRunner {
    position: RingPosition,
    state: Arc<GroupState>,
    watched: Arc<Watched>,
    stream: Arc<CudaStream>,
    compute: Arc<CudaStream>,
}

impl CollectiveRunner {
    fn run_collectives(&self, communicator: &Communicator, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let enqueued = job.enqueued.clone();
            let result = match self.state.failure() {
                Some(error) => Err(error),
                None => self.enqueue(communicator, job),
            };
            if let Err(error) = &result {
                // The other ranks wait for this rank's data. An earlier failure takes precedence.
                self.state.fail_all(Error::aborted(self.state.position.rank, error.to_string()));
            }
            // If the caller has dropped its handle, dropping the result makes the compute stream wait.
            let _ = enqueued.send(result);
        }
    }

    fn enqueue(&self, communicator: &Communicator, job: Job) -> Result<Enqueued> {
        bind(&self.stream)?;
        self.stream.wait(&job.ready).map_err(driver("an event"))?;
        let Job { collective, buffer, address, .. } = job;
        let operation = Operation { collective: &collective, address, position: self.position, stream: &self.stream };
        communicator.enqueue(&operation)?;
        let done = Arc::new(self.stream.record_event(None).map_err(driver("an event"))?);
        self.watched.pending.push(collective.name(), Arc::clone(&done));
        Ok(Enqueued { compute: Arc::clone(&self.compute), done, _buffer: buffer })
    }
}

impl ProcessGroup for NcclGroup {
    fn rank(&self) -> usize {
        self.tcp.rank()
    }

    fn size(&self) -> usize {
        self.tcp.size()
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(self.size())?;
        match collective.buffer().cloned() {
            Some(buffer) if buffer.device().is_cuda() => self.start_on_gpu(collective, buffer),
            _ => self.tcp.start(collective),
        }
    }

    fn traffic(&self) -> Traffic {
        self.tcp.traffic()
    }

    fn with_priority(&self) -> Result<Arc<dyn ProcessGroup>> {
        Ok(Arc::new(self.beside(self.tcp.clone(), StreamPriority::Highest)?))
    }

    fn by_host(&self) -> Result<Option<HostGroups>> {
        let group = |tcp: Option<TcpGroup>| -> Result<Arc<dyn ProcessGroup>> {
            Ok(match tcp {
                Some(tcp) => Arc::new(self.beside(tcp, StreamPriority::Default)?),
                None => Arc::new(Single),
            })
        };
        let Some([within, between]) = self.tcp.split_by_host()? else { return Ok(None) };
        Ok(Some(HostGroups { within: group(within)?, between: group(between)? }))
    }

    fn abort(&self, reason: &str) {
        self.tcp.abort(reason);
    }
}

impl Drop for NcclGroup {
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_failed = self.tcp.state().has_failed();
        if let (Some(communicator), false) = (&self.communicator, has_failed) {
            // The first thread ends after the last job is enqueued, then the stream completes them.
            let runners = self.threads.len().min(1);
            self.threads.drain(..runners).for_each(|thread| drop(thread.join()));
            let _ = self.stream.synchronize();
            communicator.destroy();
        }
        let deadline = Instant::now() + DROP_TIMEOUT;
        while has_failed && Instant::now() < deadline && self.threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(POLL_INTERVAL);
        }
        self.watched.stop();
        // A thread inside an NCCL call is abandoned: the process is about to end.
        self.threads.drain(..).filter(|thread| !has_failed || thread.is_finished()).for_each(|thread| {
            let _ = thread.join();
        });
    }
}

fn from_hex(text: &str) -> Option<[u8; ID_LEN]> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = text.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}
