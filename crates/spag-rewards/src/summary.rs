//! How many games went to whom, and what follows for the weights.

use std::fmt;

use spag_game::{Outcome, Role};

/// Factors that give both roles the same total weight, however unevenly they win: N / (2·N_role) over N decided games.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoleWeights {
    /// Of every utterance of a winning attacker; 0 when there is none.
    pub attacker: f64,
    /// Of every utterance of a winning defender; 0 when there is none.
    pub defender: f64,
}

impl RoleWeights {
    /// The factors for so many games won by each role.
    pub fn balancing(attacker_wins: usize, defender_wins: usize) -> Self {
        let decided = attacker_wins + defender_wins;
        let weight = |won: usize| match won {
            0 => 0.0,
            won => decided as f64 / (2 * won) as f64,
        };
        Self { attacker: weight(attacker_wins), defender: weight(defender_wins) }
    }

    /// The same for both: every sample counts 1.
    pub(crate) const EQUAL: Self = Self { attacker: 1.0, defender: 1.0 };

    /// The weight of a role's samples.
    pub fn of(self, role: Role) -> f64 {
        match role {
            Role::Attacker => self.attacker,
            Role::Defender => self.defender,
        }
    }
}

/// What became of a set of episodes. [`Display`](fmt::Display) prints it as a few lines for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreditSummary {
    /// Games the attacker won.
    pub attacker_wins: usize,
    /// Games the defender won.
    pub defender_wins: usize,
    /// Games that ended with the attacker breaking the rules.
    pub attacker_breaks_rules: usize,
    /// Games with nothing decided after the last turn.
    pub ties: usize,
    /// Samples of winning attackers.
    pub attacker_samples: usize,
    /// Samples of winning defenders.
    pub defender_samples: usize,
    /// Demonstrations mixed in.
    pub sft_samples: usize,
    /// The factors of both roles' samples.
    pub weights: RoleWeights,
}

impl CreditSummary {
    /// All games, decided or not.
    pub fn episodes(&self) -> usize {
        self.decided() + self.attacker_breaks_rules + self.ties
    }

    /// Games with a winner.
    pub fn decided(&self) -> usize {
        self.attacker_wins + self.defender_wins
    }

    /// Samples of all kinds.
    pub fn samples(&self) -> usize {
        self.attacker_samples + self.defender_samples + self.sft_samples
    }

    pub(crate) fn count_game(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::AttackerWins => &mut self.attacker_wins,
            Outcome::DefenderWins => &mut self.defender_wins,
            Outcome::AttackerBreaksRules => &mut self.attacker_breaks_rules,
            Outcome::Tie => &mut self.ties,
        } += 1;
    }

    /// Adds another summary's games; samples stay as they are.
    pub(crate) fn add_games(&mut self, other: &Self) {
        self.attacker_wins += other.attacker_wins;
        self.defender_wins += other.defender_wins;
        self.attacker_breaks_rules += other.attacker_breaks_rules;
        self.ties += other.ties;
    }

    /// The games that nobody won.
    pub(crate) fn without_winners(&self) -> Self {
        Self { attacker_breaks_rules: self.attacker_breaks_rules, ties: self.ties, ..Self::default() }
    }

    /// The weights that follow from the games counted so far.
    pub(crate) fn balancing_weights(&self) -> RoleWeights {
        RoleWeights::balancing(self.attacker_wins, self.defender_wins)
    }

    pub(crate) fn count_samples(&mut self, winner: Role, samples: usize) {
        *match winner {
            Role::Attacker => &mut self.attacker_samples,
            Role::Defender => &mut self.defender_samples,
        } += samples;
    }

    /// Whether the other summary counts the same games; samples do not matter.
    pub(crate) fn same_games(&self, other: &Self) -> bool {
        let games = |s: &Self| [s.attacker_wins, s.defender_wins, s.attacker_breaks_rules, s.ties];
        games(self) == games(other)
    }
}

impl fmt::Display for CreditSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let episodes = self.episodes();
        writeln!(f, "{episodes} episodes, {} decided", self.decided())?;
        for (outcome, games) in [
            (Outcome::AttackerWins, self.attacker_wins),
            (Outcome::DefenderWins, self.defender_wins),
            (Outcome::AttackerBreaksRules, self.attacker_breaks_rules),
            (Outcome::Tie, self.ties),
        ] {
            let percent = 100.0 * games as f64 / episodes.max(1) as f64;
            writeln!(f, "  {:<26}{games:>9}  {percent:5.1}%", outcome.to_string())?;
        }
        writeln!(f, "{} samples", self.samples())?;
        for (whose, samples, weight) in [
            ("of winning attackers", self.attacker_samples, self.weights.attacker),
            ("of winning defenders", self.defender_samples, self.weights.defender),
            ("demonstrations", self.sft_samples, 1.0),
        ] {
            writeln!(f, "  {whose:<26}{samples:>9}  weight {weight:.4}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn weights_give_both_roles_half_of_all_games(attacker in 0usize..5000, defender in 0usize..5000) {
            let weights = RoleWeights::balancing(attacker, defender);
            let half = (attacker + defender) as f64 / 2.0;
            for (role, won) in [(Role::Attacker, attacker), (Role::Defender, defender)] {
                let (total, wanted) = (weights.of(role) * won as f64, if won == 0 { 0.0 } else { half });
                prop_assert!((total - wanted).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn no_games_no_weights() {
        assert_eq!(RoleWeights::balancing(0, 0), RoleWeights::default());
        assert!(CreditSummary::default().to_string().starts_with("0 episodes, 0 decided\n"));
    }
}
