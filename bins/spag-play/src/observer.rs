//! Shows the progress of a run and stops it at a signal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use signal_hook::flag;
use spag_cli::{Error, Result, Signal, exit};
use spag_io::Progress;
use spag_selfplay::{JobObserver, SoFar};

/// Shows finished games and stops the run at a signal.
pub(crate) struct PlayObserver<'a> {
    pub(crate) progress: &'a mut dyn Progress,
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) started: Instant,
}

impl JobObserver for PlayObserver<'_> {
    fn game_ended(&mut self, so_far: SoFar<'_>) {
        let rate = so_far.new_tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        self.progress.advance(so_far.finished + so_far.failed, &note(so_far, rate));
    }

    fn rank_lost(&mut self, lost: &spag_dist::Error) {
        exit::note(format_args!("note: {lost}; its games are reassigned"));
    }

    fn should_continue(&mut self) -> bool {
        self.interrupts.caught().is_none()
    }
}

/// Counts of all recorded games, and of those that failed in this process.
fn note(so_far: SoFar<'_>, tokens_per_second: f64) -> String {
    let counts = so_far.stats.counts();
    let won = counts.labels().seats.map(|seat| format!("{seat} {}", counts.rewarded_wins(seat)));
    let failed = if so_far.failed > 0 { format!(", failed {}", so_far.failed) } else { String::new() };
    format!(
        "{tokens_per_second:.0} tokens/s  {}, broken {}, tied {}{failed}",
        won.join(", "),
        counts.broken_rules(),
        counts.ties(),
    )
}

/// The signals that stop a run.
const STOPPING: [Signal; 2] = [Signal::Interrupt, Signal::Terminate];

/// The signal that stops the run. The first signal stops gracefully, the second exits at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    /// The number of the last signal; 0 if none was received.
    caught: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// They cannot be installed.
    pub(crate) fn listen() -> Result<Self> {
        let (stopping, caught) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for signal in STOPPING {
            let number = signal.number();
            // In this order: the shutdown is armed by the first signal and runs at the second.
            flag::register_conditional_shutdown(number, i32::from(signal.exit_code()), stopping.clone())
                .and_then(|_| flag::register(number, stopping.clone()))
                .and_then(|_| flag::register_usize(number, caught.clone(), usize::try_from(number).unwrap_or_default()))
                .map_err(Error::Signals)?;
        }
        Ok(Self { caught })
    }

    /// The signal that was received, if any.
    pub(crate) fn caught(&self) -> Option<Signal> {
        let number = self.caught.load(Ordering::Relaxed);
        STOPPING.into_iter().find(|signal| usize::try_from(signal.number()) == Ok(number))
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{Episode, JudgeKind, judge_episode, taboo};
    use spag_selfplay::GameStats;

    use super::*;

    #[test]
    fn every_outcome_is_counted() {
        let mut stats = GameStats::new(&taboo::LABELS);
        for reply in ["tea", "I know the word! It is tea!", "I know the word! It is milk!", "What?"] {
            let mut episode = Episode::new("tea", 1);
            episode.push(taboo::ATTACKER, "It is hot.");
            episode.push(taboo::DEFENDER, reply);
            stats.add(&episode, &judge_episode(JudgeKind::Paper, &episode).unwrap());
        }
        let mut so_far = SoFar { stats: &stats, finished: 4, failed: 0, new_tokens: 0 };
        assert_eq!(note(so_far, 99.6), "100 tokens/s  attacker 2, defender 1, broken 0, tied 1");
        so_far.failed = 3;
        assert_eq!(note(so_far, 0.0), "0 tokens/s  attacker 2, defender 1, broken 0, tied 1, failed 3");
    }
}
