//! How the games of one seating ended.

use serde::{Deserialize, Serialize};
use spag_game::{Outcome, Role};

use crate::stats::Rate;

/// Counts of games that two players played in fixed seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The attacker won by the defender's words.
    pub attacker_wins: usize,
    /// The defender guessed right.
    pub defender_wins: usize,
    /// The attacker broke a rule: its loss.
    pub broken_rules: usize,
    /// Nobody won.
    pub ties: usize,
    /// A player gave no utterance: such a game counts for nobody and in no rate.
    pub failed: usize,
}

impl Counts {
    /// Counts one more game that was played to its end.
    pub fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::AttackerWins => &mut self.attacker_wins,
            Outcome::DefenderWins => &mut self.defender_wins,
            Outcome::AttackerBreaksRules => &mut self.broken_rules,
            Outcome::Tie => &mut self.ties,
        } += 1;
    }

    /// Games played to their end.
    pub fn games(&self) -> usize {
        self.decided() + self.ties
    }

    /// Games that somebody won.
    pub fn decided(&self) -> usize {
        self.attacker_wins + self.defender_wins + self.broken_rules
    }

    /// Share of the decided games that the player of a seat won; a broken rule is the attacker's loss.
    pub fn win(&self, seat: Role) -> Rate {
        let wins = match seat {
            Role::Attacker => self.attacker_wins,
            Role::Defender => self.defender_wins + self.broken_rules,
        };
        Rate::new(wins, self.decided())
    }

    /// Points of the attacker: 1 for a won game, ½ for a tie.
    pub fn attacker_points(&self) -> f64 {
        self.attacker_wins as f64 + 0.5 * self.ties as f64
    }

    /// Both counts together.
    pub fn and(self, other: Self) -> Self {
        Self {
            attacker_wins: self.attacker_wins + other.attacker_wins,
            defender_wins: self.defender_wins + other.defender_wins,
            broken_rules: self.broken_rules + other.broken_rules,
            ties: self.ties + other.ties,
            failed: self.failed + other.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_rule_is_lost_and_a_tie_is_half_won_but_decides_nothing() {
        let mut counts = Counts { failed: 3, ..Counts::default() };
        for (outcome, times) in Outcome::ALL.into_iter().zip([5, 3, 2, 4]) {
            (0..times).for_each(|_| counts.add(outcome));
        }
        assert_eq!((counts.games(), counts.decided(), counts.attacker_points()), (14, 10, 7.0));
        assert_eq!(counts.win(Role::Attacker), Rate::new(5, 10));
        assert_eq!(counts.win(Role::Defender), Rate::new(5, 10));
        assert_eq!((counts.defender_wins, counts.broken_rules), (3, 2));
        assert_eq!(counts.and(counts).win(Role::Attacker), Rate::new(10, 20));
    }
}
