//! Rank 0's side: the list, a thread that serves the other ranks, and rank 0's own share of the work.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Turn;
use super::board::Board;
use super::message::{MAX_ITEMS, Reply, Request};
use crate::net::{Channel, Door, Refusal, Service, Visit, Waker, meeting, poll_until, remaining, token_source};
use crate::{Error, JoinOptions, LaunchEnv, Result};

/// How long one that has proven itself may take to say what it is.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long the last words to the others may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Rank 0's end of the queue.
#[derive(Debug)]
pub(crate) struct Host {
    hall: Arc<Hall>,
    /// None where there are no other ranks.
    thread: Option<JoinHandle<()>>,
}

/// Shared by rank 0's own work and the thread that serves the others.
#[derive(Debug)]
struct Hall {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    board: Board,
    /// A rank did not fit.
    failure: Option<Error>,
    /// Rank 0 wants no more.
    closing: bool,
}

impl Hall {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everybody who waits for something looks again.
    fn announce(&self) {
        self.changed.notify_all();
        self.waker.wake();
    }
}

impl Host {
    pub(crate) fn open(env: &LaunchEnv, options: &JoinOptions, task: &str, items: usize) -> Result<Self> {
        let system = |error: std::io::Error| Error::System { what: "the work queue", reason: error.to_string() };
        let state = State { board: Board::new(items, env.world_size), failure: None, closing: false };
        let hall =
            Arc::new(Hall { state: Mutex::new(state), changed: Condvar::new(), waker: Waker::new().map_err(system)? });
        if env.world_size == 1 {
            return Ok(Self { hall, thread: None });
        }
        let door = Door::open(&meeting(env, options)?, token_source(env, options)?)?;
        let server = Server {
            hall: Arc::clone(&hall),
            door,
            size: env.world_size,
            options: options.clone(),
            task: task.to_owned(),
            items,
            opened: Instant::now(),
            workers: Vec::new(),
            told: vec![false; env.world_size],
            refusal: None,
        };
        let thread = std::thread::Builder::new().name("queue".into()).spawn(move || server.run()).map_err(system)?;
        Ok(Self { hall, thread: Some(thread) })
    }

    pub(crate) fn next(&self, at_most: usize) -> Result<Turn> {
        let mut state = self.hall.state();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(turn) = state.board.take(0, at_most) {
                return Ok(turn);
            }
            state = self.hall.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn done(&self, items: &[usize]) -> Result<()> {
        let result = self.hall.state().board.done(0, items);
        self.hall.announce();
        result.map_err(|item| never_given(0, item))
    }
}

fn never_given(rank: usize, item: usize) -> Error {
    Error::Lost { rank, reason: format!("it reported item {item}, which was never given out") }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.hall.state().closing = true;
        self.hall.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that serves the other ranks.
struct Server {
    hall: Arc<Hall>,
    door: Door,
    size: usize,
    options: JoinOptions,
    task: String,
    items: usize,
    opened: Instant,
    workers: Vec<Worker>,
    /// Which ranks know that everything is done, or that there will be nothing to do.
    told: Vec<bool>,
    /// A rank did not fit; since when that is known.
    refusal: Option<(Refusal, Instant)>,
}

/// Another rank.
struct Worker {
    rank: usize,
    channel: Channel,
    heard: Instant,
    /// It has asked for so much and not been answered.
    asks: Option<usize>,
    knows_the_end: bool,
    gone: bool,
}

impl Server {
    fn run(mut self) {
        let mut next_beat = Instant::now();
        let mut last_round = Instant::now();
        loop {
            let now = Instant::now();
            // Rank 0 itself stood still: the others could not be heard.
            if now.duration_since(last_round) > self.options.heartbeat + self.options.silence / 2 {
                self.workers.iter_mut().for_each(|worker| worker.heard = now);
            }
            last_round = now;
            while let Some(visit) = self.door.reception.next(now) {
                self.let_in(visit);
            }
            self.hear(now);
            self.answer();
            if now >= next_beat {
                self.workers.iter_mut().filter(|worker| worker.channel.is_flushed()).for_each(|worker| {
                    let _ = worker.channel.queue(&Reply::Beat);
                });
                next_beat = now + self.options.heartbeat;
            }
            for worker in &mut self.workers {
                worker.gone |= worker.channel.flush().is_err();
            }
            self.part_with_gone();
            if self.may_close(now) {
                return self.close();
            }
            let mut sockets = vec![self.hall.waker.socket(), self.door.reception.arrivals().socket()];
            sockets.extend(self.workers.iter().map(|worker| worker.channel.socket()));
            if poll_until(&sockets, next_beat).is_err() {
                std::thread::sleep(Duration::from_millis(10).min(remaining(next_beat)));
            }
            self.hall.waker.clear();
            self.door.reception.arrivals().clear();
        }
    }

    /// Nobody is left who has to be told something, or rank 0 does not wait for the end.
    fn may_close(&self, now: Instant) -> bool {
        let state = self.hall.state();
        let all_told = self.told.iter().skip(1).all(|told| *told);
        let all_flushed = self.workers.iter().all(|worker| worker.channel.is_flushed());
        let has_waited = match &self.refusal {
            // Those that still come are told why there is nothing to do, for a moment.
            Some((_, since)) => now.duration_since(*since) > LAST_WORDS,
            None => now.duration_since(self.opened) > self.options.join_timeout,
        };
        let gives_up = self.refusal.is_none() && !state.board.is_finished();
        state.closing && (gives_up || has_waited || (all_told && all_flushed))
    }

    fn close(&mut self) {
        let deadline = Instant::now() + LAST_WORDS;
        // Until the others close too: a connection closed with something unread in it would lose what was said last.
        self.workers.iter().for_each(|worker| worker.channel.close_sending());
        while !self.workers.is_empty() && !remaining(deadline).is_zero() {
            self.workers
                .retain_mut(|worker| worker.channel.receive::<Request>().is_ok() && !worker.channel.has_ended());
            let sockets: Vec<_> = self.workers.iter().map(|worker| worker.channel.socket()).collect();
            if !sockets.is_empty() && poll_until(&sockets, deadline).is_err() {
                break;
            }
        }
    }

    fn let_in(&mut self, visit: Visit) {
        // One that knows another token is told so by the handshake, and the work goes on without it.
        let Visit::Proven(hello, stream, _) = visit else { return };
        let rank = hello.rank as usize;
        let deadline = Instant::now() + REQUEST_TIME;
        let request = Channel::new(stream)
            .and_then(|mut channel| channel.receive_by::<Request>(deadline).map(|request| (request, channel)));
        let Ok((Request::Join { version, world_size, task, items }, mut channel)) = request else { return };
        if hello.service != Service::Queue {
            return;
        }
        let facts = [
            ("the program's version", version, self.options.version.clone()),
            ("the number of ranks", world_size.to_string(), self.size.to_string()),
            ("the work", task, self.task.clone()),
            ("the number of items", items.to_string(), self.items.to_string()),
        ];
        let differs = facts.into_iter().find(|(_, theirs, ours)| theirs != ours);
        let is_here = self.workers.iter_mut().any(|worker| {
            worker.rank == rank && worker.channel.receive::<Request>().is_ok_and(|_| !worker.channel.has_ended())
        });
        let refusal = match (&self.refusal, differs) {
            (Some((refusal, _)), _) => Some(refusal.clone()),
            (None, Some((what, theirs, first))) => {
                Some(Refusal::Disagree { rank, what: what.to_owned(), theirs, first })
            }
            (None, None) if rank == 0 || rank >= self.size || is_here => Some(Refusal::RankTaken { rank }),
            (None, None) => None,
        };
        let Some(refusal) = refusal else {
            let _ = channel.queue(&Reply::Welcome);
            let heard = Instant::now();
            self.workers.push(Worker { rank, channel, heard, asks: None, knows_the_end: false, gone: false });
            return;
        };
        let refused = Reply::Refused(refusal.clone());
        let _ = channel.send_by(&refused, Instant::now() + LAST_WORDS);
        channel.close_sending();
        self.note_told(rank);
        if self.refusal.is_none() {
            for worker in &mut self.workers {
                let _ = worker.channel.queue(&refused);
                if let Some(told) = self.told.get_mut(worker.rank) {
                    *told = true;
                }
            }
            self.refusal = Some((refusal.clone(), Instant::now()));
            self.hall.state().failure.get_or_insert(refusal.into());
            self.hall.announce();
        }
    }

    fn note_told(&mut self, rank: usize) {
        if let Some(told) = self.told.get_mut(rank) {
            *told = true;
        }
    }

    fn hear(&mut self, now: Instant) {
        let mut changed = false;
        for worker in &mut self.workers {
            let Ok(requests) = worker.channel.receive::<Request>() else {
                worker.gone = true;
                continue;
            };
            if !requests.is_empty() {
                worker.heard = now;
            }
            for request in requests {
                match request {
                    Request::Beat | Request::Join { .. } => {}
                    Request::Ask { at_most } => worker.asks = Some(at_most.clamp(1, MAX_ITEMS)),
                    Request::Done { items } => {
                        changed = true;
                        // One that reports what it cannot have is not to be trusted with more.
                        worker.gone |= self.hall.state().board.done(worker.rank, &items).is_err();
                    }
                }
            }
            worker.gone |= worker.channel.has_ended();
            if now.duration_since(worker.heard) > self.options.silence {
                let reason = format!("nothing was heard of it for {} s", self.options.silence.as_secs_f64());
                let _ = worker.channel.queue(&Reply::GivenUp { reason });
                let _ = worker.channel.flush();
                worker.gone = true;
            }
        }
        if changed {
            self.hall.announce();
        }
    }

    /// Gives work to those that ask for it, and the good news to all.
    fn answer(&mut self) {
        let mut state = self.hall.state();
        for worker in self.workers.iter_mut().filter(|worker| !worker.gone) {
            if state.board.is_finished() {
                if !worker.knows_the_end {
                    worker.knows_the_end = true;
                    worker.gone |= worker.channel.queue(&Reply::Finished).is_err();
                    if let Some(told) = self.told.get_mut(worker.rank) {
                        *told = true;
                    }
                }
                continue;
            }
            let Some(turn) = worker.asks.and_then(|at_most| state.board.take(worker.rank, at_most)) else { continue };
            worker.asks = None;
            let reply = match turn {
                Turn::Items(items) => Reply::Items(items),
                Turn::FinishYours => Reply::FinishYours,
                Turn::Finished => Reply::Finished,
            };
            worker.gone |= worker.channel.queue(&reply).is_err();
        }
    }

    /// Returns what lost ranks had.
    fn part_with_gone(&mut self) {
        let mut lost = false;
        for worker in self.workers.iter().filter(|worker| worker.gone) {
            lost = true;
            worker.channel.close_sending();
            self.hall.state().board.lose(worker.rank);
            // Nobody waits for it at the end; one that comes again is told again.
            if let Some(told) = self.told.get_mut(worker.rank) {
                *told = true;
            }
        }
        if lost {
            self.workers.retain(|worker| !worker.gone);
            self.hall.announce();
        }
    }
}
