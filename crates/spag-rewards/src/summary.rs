//! Counts of games and samples.

use std::fmt;

use spag_game::{Labels, SEATS, Seat, Tally, Verdict};

/// Counts of a set of episodes. [`Display`](fmt::Display) prints a table.
#[derive(Clone, Debug, PartialEq)]
pub struct CreditSummary {
    /// The games.
    pub games: Tally,
    /// Samples of each seat, in the order of [`Labels::seats`].
    pub(crate) samples: [usize; SEATS],
    /// Those of `samples` that are not of their game's winner.
    pub(crate) not_of_winners: usize,
    /// Demonstrations.
    pub sft_samples: usize,
    /// The weights of the samples of each seat, in the order of [`Labels::seats`].
    pub(crate) weights: [f64; SEATS],
}

impl CreditSummary {
    /// Counts of no games, with weights of 1.
    pub(crate) fn new(labels: &'static Labels) -> Self {
        Self {
            games: Tally::new(labels),
            samples: [0; SEATS],
            not_of_winners: 0,
            sft_samples: 0,
            weights: [1.0; SEATS],
        }
    }

    /// All games.
    pub fn episodes(&self) -> usize {
        self.games.games()
    }

    /// Games with a winner that the rules give the win.
    pub fn decided(&self) -> usize {
        self.games.won_by_the_rules()
    }

    /// Samples of all kinds.
    pub fn samples(&self) -> usize {
        self.samples.iter().sum::<usize>() + self.sft_samples
    }

    /// Samples of a seat.
    pub fn samples_of(&self, seat: Seat) -> usize {
        self.samples[seat.index()]
    }

    /// The weight of the samples of a seat.
    pub fn weight(&self, seat: Seat) -> f64 {
        self.weights[seat.index()]
    }

    /// Counts a sample of a seat in a game that ended so.
    pub(crate) fn count_sample(&mut self, seat: Seat, verdict: &Verdict) {
        self.samples[seat.index()] += 1;
        self.not_of_winners += usize::from(verdict.rewarded_winner() != Some(seat));
    }

    /// Adds the samples of other games.
    pub(crate) fn merge_samples(&mut self, more: &Self) {
        self.samples.iter_mut().zip(more.samples).for_each(|(samples, more)| *samples += more);
        self.not_of_winners += more.not_of_winners;
    }
}

impl fmt::Display for CreditSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (episodes, labels) = (self.episodes(), self.games.labels());
        writeln!(f, "{episodes} episodes, {} decided", self.decided())?;
        for outcome in labels.outcomes {
            let games = self.games.with_outcome(outcome);
            let percent = 100.0 * games as f64 / episodes.max(1) as f64;
            writeln!(f, "  {outcome:<26}{games:>9}  {percent:5.1}%")?;
        }
        writeln!(f, "{} samples", self.samples())?;
        let whose = if self.not_of_winners == 0 { "of winning" } else { "of" };
        let seats = labels.seats.map(|seat| (format!("{whose} {seat}s"), self.samples_of(seat), self.weight(seat)));
        for (whose, samples, weight) in seats.into_iter().chain([("demonstrations".into(), self.sft_samples, 1.0)]) {
            writeln!(f, "  {whose:<26}{samples:>9}  weight {weight:.4}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::CreditSummary;

    #[test]
    fn summary_of_no_games_has_all_outcomes() {
        let text = CreditSummary::new(&taboo::LABELS).to_string();
        assert!(text.starts_with("0 episodes, 0 decided\n"), "{text}");
        assert!(taboo::LABELS.outcomes.iter().all(|outcome| text.contains(outcome)), "{text}");
    }
}
