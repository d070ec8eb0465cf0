//! Counts of judged games, from which all statistics of games are computed.

use spag_game::Role;

use crate::ending::Ending;
use crate::rate::Rate;

/// How games ended and how long they took.
///
/// A turn is one utterance of each player, so every utterance up to the deciding one counts as half a turn: a game
/// that is decided by the attacker's second utterance takes 1.5 turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GameCounts {
    /// Games by ending, in the order of [`Ending::ALL`].
    endings: [usize; Ending::ALL.len()],
    /// Utterances of all games up to the deciding ones.
    utterances: usize,
    /// Games in which a player gave no utterance. They count in no rate.
    pub failed: usize,
}

impl GameCounts {
    /// Counts a finished game with the `history_length` of its [`Verdict`](spag_game::Verdict).
    pub fn add(&mut self, ending: Ending, history_length: usize) {
        self.endings[ending.index()] += 1;
        self.utterances += history_length;
    }

    /// Finished games.
    pub fn games(&self) -> usize {
        self.endings.iter().sum()
    }

    /// Games with this ending.
    pub fn ended(&self, ending: Ending) -> usize {
        self.endings[ending.index()]
    }

    /// Games with a winner.
    pub fn decided(&self) -> usize {
        self.games() - self.ended(Ending::Tie)
    }

    /// Games that the player of a seat won. A broken rule is the attacker's loss.
    pub fn wins(&self, seat: Role) -> usize {
        match seat {
            Role::Attacker => self.ended(Ending::WrongGuess) + self.ended(Ending::SaidUnknowingly),
            Role::Defender => self.ended(Ending::RightGuess) + self.ended(Ending::BrokenRule),
        }
    }

    /// Wins of a seat among the decided games.
    pub fn win_rate(&self, seat: Role) -> Rate {
        Rate::new(self.wins(seat), self.decided())
    }

    /// Games with this ending among all finished games.
    pub fn ending_rate(&self, ending: Ending) -> Rate {
        Rate::new(self.ended(ending), self.games())
    }

    /// Mean number of turns up to the deciding utterance; `None` without games.
    pub fn mean_turns(&self) -> Option<f64> {
        let games = self.games();
        (games > 0).then(|| self.utterances as f64 / 2.0 / games as f64)
    }

    /// The sum of both counts.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.endings.iter_mut().zip(other.endings).for_each(|(count, more)| *count += more);
        self.utterances += other.utterances;
        self.failed += other.failed;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_the_attackers_loss_and_ties_are_not_decided() {
        let mut counts = GameCounts { failed: 3, ..GameCounts::default() };
        for (ending, games) in Ending::ALL.into_iter().zip([3, 4, 1, 2, 4]) {
            (0..games).for_each(|_| counts.add(ending, 3));
        }
        assert_eq!((counts.games(), counts.decided(), counts.mean_turns()), (14, 10, Some(1.5)));
        assert_eq!(counts.win_rate(Role::Attacker), Rate::new(5, 10));
        assert_eq!(counts.win_rate(Role::Defender), Rate::new(5, 10));
        assert_eq!((counts.ended(Ending::RightGuess), counts.ended(Ending::BrokenRule)), (3, 2));
        assert_eq!(counts.ending_rate(Ending::Tie), Rate::new(4, 14));
        assert_eq!(counts.plus(counts).win_rate(Role::Attacker), Rate::new(10, 20));
        assert_eq!(GameCounts::default().mean_turns(), None);
    }
}
