//! The time that collectives take on a link.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Result;
use crate::net::thread;

/// What a link carries before it chooses anew between the two lanes.
const SLICE: Duration = Duration::from_millis(1);
/// How often a lane is asked whether its first collective is ready.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// The end of a pause that is not slept, since threads wake late.
const AWAKE: Duration = Duration::from_micros(80);

/// What collectives of different groups wait for each other: those of a lane run in their order, and those of the urgent one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Ordinary = 0,
    Urgent = 1,
}

/// A collective that takes `time` on a link.
pub(super) struct Job {
    pub(super) time: Duration,
    /// Whether its buffer can be sent.
    pub(super) ready: Box<dyn FnMut() -> bool + Send>,
    /// Called when it has been sent.
    pub(super) done: Box<dyn FnOnce() + Send>,
}

/// A link, which carries one collective at a time. Dropping it waits for those that were given to it.
#[derive(Debug)]
pub(super) struct Wire {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lanes: [VecDeque<Waiting>; 2],
    busy: Duration,
    closed: bool,
}

struct Waiting {
    job: Job,
    /// When it was seen to be ready.
    since: Option<Instant>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Wire {
    pub(super) fn start(name: &str) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        Ok(Self { shared, thread: Some(thread(name, move || own.run())?) })
    }

    pub(super) fn send(&self, lane: Lane, job: Job) {
        self.shared.state().lanes[lane as usize].push_back(Waiting { job, since: None });
        self.shared.changed.notify_all();
    }

    /// The time of all that it has carried.
    pub(super) fn busy(&self) -> Duration {
        self.shared.state().busy
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        // The link is free from here on. Late sleeps do not add up, since a slice begins where the one before it ended.
        let mut free = Instant::now();
        while let Some(state) = self.wait_for_work() {
            let Some((lane, since, time)) = next_slice(state) else {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            free = free.max(since) + time;
            sleep_until(free);
            let mut state = self.state();
            state.busy += time;
            if let Some(waiting) = state.lanes[lane].front_mut() {
                waiting.job.time -= time;
                if waiting.job.time.is_zero() {
                    let sent = state.lanes[lane].pop_front();
                    drop(state);
                    sent.into_iter().for_each(|waiting| (waiting.job.done)());
                }
            }
        }
    }

    /// Waits until there is a collective; `None` if there will be none.
    fn wait_for_work(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state();
        while state.lanes.iter().all(VecDeque::is_empty) {
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(state)
    }
}

/// The lane that sends next, since when its first collective is ready, and how long it sends; `None` if none is ready.
fn next_slice(mut state: MutexGuard<'_, State>) -> Option<(usize, Instant, Duration)> {
    let now = Instant::now();
    for lane in [Lane::Urgent as usize, Lane::Ordinary as usize] {
        if let Some(waiting) = state.lanes[lane].front_mut() {
            if waiting.since.is_none() && (waiting.job.ready)() {
                waiting.since = Some(now);
            }
            if let Some(since) = waiting.since {
                return Some((lane, since, waiting.job.time.min(SLICE)));
            }
        }
    }
    None
}

fn sleep_until(time: Instant) {
    let left = time.saturating_duration_since(Instant::now());
    if left > AWAKE {
        std::thread::sleep(left - AWAKE);
    }
    while Instant::now() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Sends three collectives that are ready only when all are given; returns the order in which they end.
    fn order(lanes: [Lane; 3]) -> Vec<usize> {
        let wire = Wire::start("wire").unwrap();
        let ready = Arc::new(AtomicBool::new(false));
        let (ended, order) = mpsc::channel();
        for (number, lane) in lanes.into_iter().enumerate() {
            let (ready, ended) = (Arc::clone(&ready), ended.clone());
            let job = Job {
                time: 2 * SLICE + Duration::from_micros(1),
                ready: Box::new(move || ready.load(Ordering::Acquire)),
                done: Box::new(move || ended.send(number).unwrap()),
            };
            wire.send(lane, job);
        }
        ready.store(true, Ordering::Release);
        let began = Instant::now();
        let order: Vec<usize> = order.iter().take(3).collect();
        let all = 3 * (2 * SLICE + Duration::from_micros(1));
        assert!(began.elapsed() >= all - POLL_INTERVAL, "{:?}", began.elapsed());
        assert_eq!(wire.busy(), all);
        order
    }

    #[test]
    fn urgent_collectives_overtake_and_others_keep_their_order() {
        assert_eq!(order([Lane::Ordinary, Lane::Ordinary, Lane::Urgent]), [2, 0, 1]);
        assert_eq!(order([Lane::Ordinary, Lane::Ordinary, Lane::Ordinary]), [0, 1, 2]);
    }

    #[test]
    fn collective_that_is_not_ready_holds_up_its_lane_alone() {
        let wire = Wire::start("wire").unwrap();
        let release = Arc::new(AtomicBool::new(false));
        let (ended, order) = mpsc::channel();
        for (name, lane) in [("late", Lane::Urgent), ("behind it", Lane::Urgent), ("other", Lane::Ordinary)] {
            let (release, ended) = (Arc::clone(&release), ended.clone());
            let ready = move || name != "late" || release.load(Ordering::Acquire);
            let done = move || ended.send(name).unwrap();
            wire.send(lane, Job { time: Duration::ZERO, ready: Box::new(ready), done: Box::new(done) });
        }
        assert_eq!(order.recv().unwrap(), "other");
        release.store(true, Ordering::Release);
        assert_eq!([order.recv().unwrap(), order.recv().unwrap()], ["late", "behind it"]);
    }
}
