//! How a run of games went so far.

use std::fmt;

use spag_game::{Outcome, Verdict};

/// Counts of outcomes, for a line of progress and the lines at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    attacker_wins: usize,
    defender_wins: usize,
    broken_rules: usize,
    ties: usize,
    utterances: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, verdict: &Verdict) {
        *match verdict.outcome {
            Outcome::AttackerWins => &mut self.attacker_wins,
            Outcome::DefenderWins => &mut self.defender_wins,
            Outcome::AttackerBreaksRules => &mut self.broken_rules,
            Outcome::Tie => &mut self.ties,
        } += 1;
        self.utterances += verdict.history_length;
    }

    pub(crate) fn games(&self) -> usize {
        self.attacker_wins + self.defender_wins + self.broken_rules + self.ties
    }

    /// One short line.
    pub(crate) fn short(&self) -> String {
        let Self { attacker_wins, defender_wins, broken_rules, ties, .. } = self;
        format!("attacker {attacker_wins}, defender {defender_wins}, broken {broken_rules}, tied {ties}")
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let games = self.games();
        for (outcome, count) in [
            (Outcome::AttackerWins, self.attacker_wins),
            (Outcome::DefenderWins, self.defender_wins),
            (Outcome::AttackerBreaksRules, self.broken_rules),
            (Outcome::Tie, self.ties),
        ] {
            let percent = 100.0 * count as f64 / games.max(1) as f64;
            writeln!(f, "  {:<26}{count:>9}  {percent:5.1}%", outcome.to_string())?;
        }
        // A turn is an utterance of each.
        write!(f, "  {:<26}{:>9.2}", "mean turns", self.utterances as f64 / 2.0 / games.max(1) as f64)
    }
}
