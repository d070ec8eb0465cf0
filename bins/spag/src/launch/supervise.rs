//! What is to be done when a rank ends, a signal comes, or time passes. No processes here: only what follows from what.
//!
//! ```text
//! Running ──a rank fails──▶ Settling ──a moment later──▶ Stopping ──grace is over──▶ Killing ──▶ given up
//!    └────── a signal, or all ranks have ended ─────────────▲    └── a second Ctrl-C ──▲
//! ```

use std::time::Duration;

use super::ended::Ended;
use spag_cli::Signal;

/// After the first failure, how long others may come in before it is decided which rank failed first: a rank that dies
/// takes its neighbours along within moments, and they may be noticed before it.
pub(super) const SETTLE: Duration = Duration::from_millis(300);
/// How long killed processes may take to be gone. One that waits for a broken disk may never be.
pub(super) const KILL_TAKES: Duration = Duration::from_secs(10);

/// What is to be done to every rank that still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send a signal.
    Send(Signal),
    /// Kill.
    Kill,
    /// Wait for them no longer.
    GiveUp,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every rank ended with exit code 0.
    Success,
    /// A rank failed, and the others were stopped.
    Failed {
        /// The one that failed first.
        rank: usize,
        /// How it ended.
        how: Ended,
    },
    /// A signal to the launcher ended it.
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

/// The state of one start of all ranks of this machine. Ranks are numbered from 0 here; times count from the start.
#[derive(Debug)]
pub(super) struct Supervisor {
    grace: Duration,
    ended: Vec<bool>,
    /// Ranks that failed before it was decided what the run ended for, in the order in which that was noticed.
    failures: Vec<(usize, Ended)>,
    outcome: Option<Outcome>,
    phase: Phase,
}

impl Supervisor {
    pub(super) fn new(ranks: usize, grace: Duration) -> Self {
        Self { grace, ended: vec![false; ranks], failures: Vec::new(), outcome: None, phase: Phase::Running }
    }

    /// A rank's program has ended.
    pub(super) fn ended(&mut self, rank: usize, how: Ended, now: Duration) {
        if let Some(ended) = self.ended.get_mut(rank) {
            *ended = true;
        }
        if self.outcome.is_some() || how == Ended::Code(0) {
            return;
        }
        self.failures.push((rank, how));
        if self.phase == Phase::Running {
            self.phase = Phase::Settling { until: now + SETTLE };
        }
    }

    /// The launcher has got a signal.
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

    /// What the time asks for.
    pub(super) fn tick(&mut self, now: Duration) -> Option<Action> {
        let all_ended = self.ended.iter().all(|ended| *ended);
        match self.phase {
            // What the ranks left behind ends with them.
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

    /// What the run ends for, as soon as that is decided.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    fn stop(&mut self, outcome: Outcome, now: Duration) {
        self.outcome = Some(outcome);
        self.phase = Phase::Stopping { kill_at: now + self.grace };
    }

    fn kill(&mut self, now: Duration) -> Action {
        self.phase = Phase::Killing { give_up_at: now + KILL_TAKES };
        Action::Kill
    }

    /// The failure that says most about the cause; of several alike, the one noticed first.
    fn first_failure(&self) -> Option<Outcome> {
        let (rank, how) = self.failures.iter().copied().min_by_key(|(_, how)| how.remoteness())?;
        Some(Outcome::Failed { rank, how })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spag_cli::exit::LOST_PEER;

    const GRACE: Duration = Duration::from_secs(30);
    const LOST: Ended = Ended::Code(LOST_PEER as i32);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn of(ranks: usize) -> Supervisor {
        Supervisor::new(ranks, GRACE)
    }

    #[test]
    fn all_ranks_that_end_well_are_a_success() {
        let mut ranks = of(2);
        ranks.ended(0, Ended::Code(0), at(1));
        assert_eq!((ranks.tick(at(100_000)), ranks.outcome()), (None, None));
        ranks.ended(1, Ended::Code(0), at(100_001));
        assert_eq!(ranks.tick(at(100_001)), Some(Action::Send(Signal::Terminate)));
        assert_eq!(ranks.outcome(), Some(Outcome::Success));
        assert_eq!(ranks.tick(at(100_001) + GRACE), Some(Action::Kill));
        assert_eq!(ranks.tick(at(100_001) + GRACE + KILL_TAKES), Some(Action::GiveUp));
        assert_eq!(ranks.tick(at(1_000_000)), None);
    }

    #[test]
    fn a_failure_stops_the_others_and_then_kills_them() {
        let mut ranks = of(3);
        ranks.ended(2, Ended::Code(5), at(10));
        assert_eq!(ranks.tick(at(10)), None);
        assert_eq!(ranks.tick(at(10) + SETTLE), Some(Action::Send(Signal::Terminate)));
        let failed = Some(Outcome::Failed { rank: 2, how: Ended::Code(5) });
        assert_eq!(ranks.outcome(), failed);
        // What happens to them now is our own doing.
        ranks.ended(0, Ended::Signal(15), at(400));
        assert_eq!(ranks.tick(at(10) + SETTLE + GRACE), Some(Action::Kill));
        ranks.ended(1, Ended::Signal(9), at(40_000));
        assert_eq!(ranks.outcome(), failed);
    }

    #[test]
    fn the_cause_is_blamed_and_not_who_lost_it() {
        for (ends, first) in [
            ([(0, LOST), (1, Ended::Signal(9)), (2, Ended::Code(1))], (1, Ended::Signal(9))),
            ([(2, LOST), (1, Ended::Code(7)), (0, Ended::Code(1))], (1, Ended::Code(7))),
            ([(2, LOST), (1, LOST), (0, Ended::Code(0))], (2, LOST)),
        ] {
            let mut ranks = of(3);
            for (time, (rank, how)) in ends.into_iter().enumerate() {
                ranks.ended(rank, how, at(time as u64));
            }
            // All have ended: nothing to settle.
            assert!(ranks.tick(at(5)).is_some());
            assert_eq!(ranks.outcome(), Some(Outcome::Failed { rank: first.0, how: first.1 }));
        }
    }

    #[test]
    fn a_signal_is_passed_on_and_the_second_kills() {
        let mut ranks = of(1);
        assert_eq!(ranks.signalled(Signal::User1, at(1)), Some(Action::Send(Signal::User1)));
        assert_eq!(ranks.outcome(), None);
        assert_eq!(ranks.signalled(Signal::Interrupt, at(2)), Some(Action::Send(Signal::Interrupt)));
        assert_eq!(ranks.signalled(Signal::User2, at(3)), Some(Action::Send(Signal::User2)));
        // A terminal that closes sends SIGHUP more than once.
        assert_eq!(ranks.signalled(Signal::Hangup, at(3)), None);
        assert_eq!(ranks.tick(at(4)), None);
        assert_eq!(ranks.signalled(Signal::Interrupt, at(4)), Some(Action::Kill));
        assert_eq!(ranks.signalled(Signal::Interrupt, at(5)), None);
        ranks.ended(0, Ended::Signal(9), at(6));
        assert_eq!(ranks.outcome(), Some(Outcome::Stopped(Signal::Interrupt)));
    }

    #[test]
    fn after_a_signal_the_grace_time_counts() {
        let mut ranks = of(2);
        ranks.signalled(Signal::Terminate, at(5));
        assert_eq!(ranks.tick(at(4) + GRACE), None);
        assert_eq!(ranks.tick(at(5) + GRACE), Some(Action::Kill));
        assert_eq!(ranks.outcome(), Some(Outcome::Stopped(Signal::Terminate)));
    }

    #[test]
    fn a_failure_before_the_signal_stays_the_cause() {
        let mut ranks = of(2);
        ranks.ended(1, Ended::Code(4), at(1));
        assert_eq!(ranks.signalled(Signal::Terminate, at(2)), Some(Action::Send(Signal::Terminate)));
        assert_eq!(ranks.outcome(), Some(Outcome::Failed { rank: 1, how: Ended::Code(4) }));
    }
}
