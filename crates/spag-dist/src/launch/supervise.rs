//! The launcher's state machine: the action to take when a rank exits, a signal arrives or a timeout expires. Processes
//! are handled in `ranks.rs`.
//!
//! ```text
//! Running ──a rank fails──▶ Settling ──SETTLE_TIME──▶ Stopping ──grace period──▶ Killing ──▶ GivenUp
//!    └── a signal, all ranks have ended, or one hangs ─────▲    └── second Ctrl-C ───▲
//! ```

use std::time::Duration;

use spag_io::Signal;

use super::rank_exit::RankExit;

/// Interval at which ranks and signals are checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time to wait for further failures before deciding which rank failed first: the neighbours of a dead rank fail too, and
/// may be noticed before it.
pub(super) const SETTLE_TIME: Duration = Duration::from_millis(300);
/// Time that a rank may stay suspended after another one has exited. Longer than the ranks' own heartbeat timeout, so that
/// a rank can report the hung one first.
pub(super) const HUNG_TIME: Duration = Duration::from_secs(15);
/// Time limit for killed processes to exit. A process blocked on a broken disk never does.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// An action on all running ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Send(Signal),
    Kill,
    /// Stop waiting for them.
    GiveUp,
}

/// The result of one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every rank ended with exit code 0.
    Success,
    /// A rank failed, and the others were stopped.
    Failed {
        /// The rank that failed first.
        rank: usize,
        exit: RankExit,
    },
    /// A rank hangs, though another one has ended.
    Hung {
        /// The rank.
        rank: usize,
    },
    /// The launcher received a signal.
    Stopped(Signal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Settling { until: Duration },
    Stopping { kill_at: Duration },
    Killing { give_up_at: Duration },
    GivenUp,
}

/// One start of the ranks of this machine. Ranks are local ranks; times count from the start.
#[derive(Debug)]
pub(super) struct Supervisor {
    grace: Duration,
    ended: Vec<bool>,
    /// When each rank was suspended.
    stopped_since: Vec<Option<Duration>>,
    /// Failures before the outcome was decided, in the order of detection.
    failures: Vec<(usize, RankExit)>,
    outcome: Option<Outcome>,
    phase: Phase,
}

impl Supervisor {
    pub(super) fn new(ranks: usize, grace: Duration) -> Self {
        let (ended, stopped_since) = (vec![false; ranks], vec![None; ranks]);
        Self { grace, ended, stopped_since, failures: Vec::new(), outcome: None, phase: Phase::Running }
    }

    /// Call when a rank's process has exited.
    pub(super) fn rank_ended(&mut self, rank: usize, exit: RankExit, now: Duration) {
        if let Some(ended) = self.ended.get_mut(rank) {
            *ended = true;
        }
        if self.outcome.is_some() || exit == RankExit::Code(0) {
            return;
        }
        self.failures.push((rank, exit));
        if self.phase == Phase::Running {
            self.phase = Phase::Settling { until: now + SETTLE_TIME };
        }
    }

    /// Call with the ranks whose processes are suspended (SIGSTOP); all others are running.
    pub(super) fn ranks_stopped(&mut self, ranks: &[usize], now: Duration) {
        for (rank, since) in self.stopped_since.iter_mut().enumerate() {
            *since = if ranks.contains(&rank) { since.or(Some(now)) } else { None };
        }
    }

    /// A suspended rank that prevents the run from ending.
    fn hung(&self, now: Duration) -> Option<usize> {
        let is_hung = |since: &Option<Duration>| since.is_some_and(|since| now.saturating_sub(since) >= HUNG_TIME);
        let any_ended = self.ended.iter().any(|ended| *ended);
        self.stopped_since.iter().position(is_hung).filter(|_| any_ended)
    }

    /// Call when the launcher has received a signal.
    pub(super) fn signalled(&mut self, signal: Signal, now: Duration) -> Option<Action> {
        match self.phase {
            Phase::Running | Phase::Settling { .. } if signal.ends() => {
                let outcome = self.first_failure().unwrap_or(Outcome::Stopped(signal));
                self.stop(outcome, now);
                Some(Action::Send(signal))
            }
            Phase::Stopping { .. } if signal.insists() => Some(self.kill(now)),
            _ if signal.ends() => None,
            Phase::Running | Phase::Settling { .. } | Phase::Stopping { .. } => Some(Action::Send(signal)),
            Phase::Killing { .. } | Phase::GivenUp => None,
        }
    }

    /// The action due at this time.
    pub(super) fn tick(&mut self, now: Duration) -> Option<Action> {
        let all_ended = self.ended.iter().all(|ended| *ended);
        if let (Phase::Running, Some(rank)) = (self.phase, self.hung(now)) {
            self.stop(Outcome::Hung { rank }, now);
            return Some(Action::Send(Signal::Terminate));
        }
        match self.phase {
            // Stops processes left behind by the ranks.
            Phase::Running if all_ended => {
                self.stop(Outcome::Success, now);
                Some(Action::Send(Signal::Terminate))
            }
            Phase::Settling { until } if all_ended || now >= until => {
                let outcome = self.first_failure().unwrap_or(Outcome::Success);
                self.stop(outcome, now);
                Some(Action::Send(Signal::Terminate))
            }
            Phase::Stopping { kill_at } if now >= kill_at => Some(self.kill(now)),
            Phase::Killing { give_up_at } if now >= give_up_at => {
                self.phase = Phase::GivenUp;
                Some(Action::GiveUp)
            }
            _ => None,
        }
    }

    /// `None` until it is decided.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    fn stop(&mut self, outcome: Outcome, now: Duration) {
        self.outcome = Some(outcome);
        self.phase = Phase::Stopping { kill_at: now + self.grace };
    }

    fn kill(&mut self, now: Duration) -> Action {
        self.phase = Phase::Killing { give_up_at: now + KILL_TIMEOUT };
        Action::Kill
    }

    /// The failure that is most likely the cause; the first one on ties.
    fn first_failure(&self) -> Option<Outcome> {
        let (rank, exit) = self.failures.iter().copied().min_by_key(|(_, exit)| exit.cause_order())?;
        Some(Outcome::Failed { rank, exit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spag_io::ErrorClass;

    const GRACE: Duration = Duration::from_secs(30);
    const LOST: RankExit = RankExit::Code(ErrorClass::LostPeer.exit_code() as i32);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn of(ranks: usize) -> Supervisor {
        Supervisor::new(ranks, GRACE)
    }

    #[test]
    fn success_needs_exit_code_0_of_all_ranks() {
        let mut ranks = of(2);
        ranks.rank_ended(0, RankExit::Code(0), at(1));
        assert_eq!((ranks.tick(at(100_000)), ranks.outcome()), (None, None));
        ranks.rank_ended(1, RankExit::Code(0), at(100_001));
        assert_eq!(ranks.tick(at(100_001)), Some(Action::Send(Signal::Terminate)));
        assert_eq!(ranks.outcome(), Some(Outcome::Success));
        assert_eq!(ranks.tick(at(100_001) + GRACE), Some(Action::Kill));
        assert_eq!(ranks.tick(at(100_001) + GRACE + KILL_TIMEOUT), Some(Action::GiveUp));
        assert_eq!(ranks.tick(at(1_000_000)), None);
    }

    #[test]
    fn stopped_rank_hangs_the_run_once_another_has_ended() {
        let mut ranks = of(3);
        ranks.ranks_stopped(&[1], at(0));
        assert_eq!((ranks.tick(HUNG_TIME * 9), ranks.outcome()), (None, None));
        // It continues, and is suspended again.
        ranks.ranks_stopped(&[], HUNG_TIME * 9);
        ranks.ranks_stopped(&[1], HUNG_TIME * 10);
        ranks.rank_ended(0, RankExit::Code(0), HUNG_TIME * 10);
        assert_eq!(ranks.tick(HUNG_TIME * 11 - at(1)), None);
        assert_eq!(ranks.tick(HUNG_TIME * 11), Some(Action::Send(Signal::Terminate)));
        assert_eq!(ranks.outcome(), Some(Outcome::Hung { rank: 1 }));
        assert_eq!(ranks.tick(HUNG_TIME * 11 + GRACE), Some(Action::Kill));
    }

    #[test]
    fn failure_stops_then_kills_the_other_ranks() {
        let mut ranks = of(3);
        ranks.rank_ended(2, RankExit::Code(5), at(10));
        assert_eq!(ranks.tick(at(10)), None);
        assert_eq!(ranks.tick(at(10) + SETTLE_TIME), Some(Action::Send(Signal::Terminate)));
        let failed = Some(Outcome::Failed { rank: 2, exit: RankExit::Code(5) });
        assert_eq!(ranks.outcome(), failed);
        // Later exits are caused by the launcher.
        ranks.rank_ended(0, RankExit::Signal(15), at(400));
        assert_eq!(ranks.tick(at(10) + SETTLE_TIME + GRACE), Some(Action::Kill));
        ranks.rank_ended(1, RankExit::Signal(9), at(40_000));
        assert_eq!(ranks.outcome(), failed);
    }

    #[test]
    fn first_failure_is_the_cause_and_not_a_lost_peer() {
        for (ends, first) in [
            ([(0, LOST), (1, RankExit::Signal(9)), (2, RankExit::Code(1))], (1, RankExit::Signal(9))),
            ([(2, LOST), (1, RankExit::Code(7)), (0, RankExit::Code(1))], (1, RankExit::Code(7))),
            ([(2, LOST), (1, LOST), (0, RankExit::Code(0))], (2, LOST)),
        ] {
            let mut ranks = of(3);
            for (time, (rank, exit)) in ends.into_iter().enumerate() {
                ranks.rank_ended(rank, exit, at(time as u64));
            }
            // All have exited, so the outcome is decided at once.
            assert!(ranks.tick(at(5)).is_some());
            assert_eq!(ranks.outcome(), Some(Outcome::Failed { rank: first.0, exit: first.1 }));
        }
    }

    #[test]
    fn first_signal_is_forwarded_and_the_second_kills() {
        let mut ranks = of(1);
        assert_eq!(ranks.signalled(Signal::User1, at(1)), Some(Action::Send(Signal::User1)));
        assert_eq!(ranks.outcome(), None);
        assert_eq!(ranks.signalled(Signal::Interrupt, at(2)), Some(Action::Send(Signal::Interrupt)));
        assert_eq!(ranks.signalled(Signal::User2, at(3)), Some(Action::Send(Signal::User2)));
        // A closing terminal may send SIGHUP more than once.
        assert_eq!(ranks.signalled(Signal::Hangup, at(3)), None);
        assert_eq!(ranks.tick(at(4)), None);
        assert_eq!(ranks.signalled(Signal::Interrupt, at(4)), Some(Action::Kill));
        assert_eq!(ranks.signalled(Signal::Interrupt, at(5)), None);
        ranks.rank_ended(0, RankExit::Signal(9), at(6));
        assert_eq!(ranks.outcome(), Some(Outcome::Stopped(Signal::Interrupt)));
    }

    #[test]
    fn grace_period_starts_at_the_signal() {
        let mut ranks = of(2);
        ranks.signalled(Signal::Terminate, at(5));
        assert_eq!(ranks.tick(at(4) + GRACE), None);
        assert_eq!(ranks.tick(at(5) + GRACE), Some(Action::Kill));
        assert_eq!(ranks.outcome(), Some(Outcome::Stopped(Signal::Terminate)));
    }

    #[test]
    fn failure_before_a_signal_is_the_outcome() {
        let mut ranks = of(2);
        ranks.rank_ended(1, RankExit::Code(4), at(1));
        assert_eq!(ranks.signalled(Signal::Terminate, at(2)), Some(Action::Send(Signal::Terminate)));
        assert_eq!(ranks.outcome(), Some(Outcome::Failed { rank: 1, exit: RankExit::Code(4) }));
    }
}
