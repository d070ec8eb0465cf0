//! Games as they end, onto the bar; and the signals that end them all.

use std::time::Instant;

use spag_game::Role;
use spag_io::Progress;
use spag_selfplay::{Ending, JobObserver, SoFar};

use crate::{interrupts::Interrupts, table::TokenCounts};

/// Shows how games go, and stops them at a signal.
pub(crate) struct Watch<'a> {
    pub(crate) progress: &'a mut dyn Progress,
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) tokens: &'a TokenCounts,
    pub(crate) began: Instant,
}

impl JobObserver for Watch<'_> {
    fn game_ended(&mut self, so_far: SoFar<'_>) {
        let rate = self.tokens.sum() as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        self.progress.advance(so_far.finished + so_far.failed, &note(so_far, rate));
    }

    fn should_continue(&mut self) -> bool {
        self.interrupts.caught().is_none()
    }
}

/// Running counts of all games that are known, and of those that failed here.
fn note(so_far: SoFar<'_>, tokens_per_second: f64) -> String {
    let counts = so_far.stats.counts();
    let failed = match so_far.failed {
        0 => String::new(),
        failed => format!(", failed {failed}"),
    };
    format!(
        "{tokens_per_second:.0} tokens/s  attacker {}, defender {}, broken {}, tied {}{failed}",
        counts.wins(Role::Attacker),
        counts.ended(Ending::RightGuess),
        counts.ended(Ending::BrokenRule),
        counts.ended(Ending::Tie),
    )
}

#[cfg(test)]
mod tests {
    use spag_game::{Episode, JudgeKind};
    use spag_selfplay::GameStats;

    use super::*;

    #[test]
    fn every_outcome_is_counted() {
        let mut stats = GameStats::new(JudgeKind::Paper);
        for reply in ["tea", "I know the word! It is tea!", "I know the word! It is milk!", "What?"] {
            let mut episode = Episode::new("tea", 1);
            episode.push(Role::Attacker, "It is hot.");
            episode.push(Role::Defender, reply);
            stats.add(&episode).unwrap();
        }
        let mut so_far = SoFar { stats: &stats, finished: 4, failed: 0 };
        assert_eq!(note(so_far, 99.6), "100 tokens/s  attacker 2, defender 1, broken 0, tied 1");
        so_far.failed = 3;
        assert_eq!(note(so_far, 0.0), "0 tokens/s  attacker 2, defender 1, broken 0, tied 1, failed 3");
    }
}
