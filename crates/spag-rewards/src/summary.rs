//! Counts of games and samples, and the weights that balance the roles.

use std::fmt;

use spag_game::{Outcome, Role};

/// Sample weights that give both roles the same total: N / (2·N_role), with N games with a winner and N_role wins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoleWeights {
    /// Weight of the samples of winning attackers; 0 if there are none.
    pub attacker: f64,
    /// Weight of the samples of winning defenders; 0 if there are none.
    pub defender: f64,
}

impl RoleWeights {
    /// The weights for the numbers of games won.
    pub(crate) fn balancing(attacker_wins: usize, defender_wins: usize) -> Self {
        let decided = attacker_wins + defender_wins;
        let weight = |won: usize| if won == 0 { 0.0 } else { decided as f64 / (2 * won) as f64 };
        Self { attacker: weight(attacker_wins), defender: weight(defender_wins) }
    }

    /// The weight of a role's samples.
    pub fn of(self, role: Role) -> f64 {
        match role {
            Role::Attacker => self.attacker,
            Role::Defender => self.defender,
        }
    }
}

/// Counts of a set of episodes. [`Display`](fmt::Display) prints a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreditSummary {
    /// Games the attacker won.
    pub attacker_wins: usize,
    /// Games the defender won.
    pub defender_wins: usize,
    /// Games in which the attacker broke the rules.
    pub attacker_breaks_rules: usize,
    /// Games undecided after the last turn.
    pub ties: usize,
    /// Samples of winning attackers.
    pub attacker_samples: usize,
    /// Samples of winning defenders.
    pub defender_samples: usize,
    /// Demonstrations.
    pub sft_samples: usize,
    /// The weights of the samples.
    pub weights: RoleWeights,
}

impl CreditSummary {
    /// All games.
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

    /// Sets the weights that balance the games counted so far.
    pub(crate) fn set_balancing_weights(&mut self) {
        self.weights = RoleWeights::balancing(self.attacker_wins, self.defender_wins);
    }

    /// Adds the counts of games and samples of both roles.
    pub(crate) fn add(&mut self, other: &Self) {
        self.attacker_wins += other.attacker_wins;
        self.defender_wins += other.defender_wins;
        self.attacker_breaks_rules += other.attacker_breaks_rules;
        self.ties += other.ties;
        self.attacker_samples += other.attacker_samples;
        self.defender_samples += other.defender_samples;
    }

    pub(crate) fn count_samples(&mut self, winner: Role, samples: usize) {
        *match winner {
            Role::Attacker => &mut self.attacker_samples,
            Role::Defender => &mut self.defender_samples,
        } += samples;
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
        fn weights_give_each_role_half_of_the_games(attacker in 0usize..5000, defender in 0usize..5000) {
            let weights = RoleWeights::balancing(attacker, defender);
            let half = (attacker + defender) as f64 / 2.0;
            for (role, won) in [(Role::Attacker, attacker), (Role::Defender, defender)] {
                let (total, wanted) = (weights.of(role) * won as f64, if won == 0 { 0.0 } else { half });
                prop_assert!((total - wanted).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn weights_are_zero_without_games() {
        assert_eq!(RoleWeights::balancing(0, 0), RoleWeights::default());
        assert!(CreditSummary::default().to_string().starts_with("0 episodes, 0 decided\n"));
    }
}
