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
    /// Games that the defender's first utterance decided by a guess.
    early_guesses: usize,
    /// Games in which a player gave no utterance. They count in no rate.
    pub failed: usize,
}

impl GameCounts {
    /// Counts a finished game with the `history_length` of its [`Verdict`](spag_game::Verdict).
    pub fn add(&mut self, ending: Ending, history_length: usize) {
        self.endings[ending.index()] += 1;
        self.utterances += history_length;
        // The attacker speaks first. A guess always decides, so a game has at most one.
        let is_guess = matches!(ending, Ending::RightGuess | Ending::WrongGuess);
        self.early_guesses += usize::from(is_guess && history_length == 2);
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

    /// Games that a player won without a broken rule: by a right guess, or since the defender guessed wrong or said the word
    /// unknowingly.
    pub fn won_by_the_rules(&self) -> usize {
        self.wins(Role::Attacker) + self.ended(Ending::RightGuess)
    }

    /// Wins of a seat among the decided games.
    pub fn win_rate(&self, seat: Role) -> Rate {
        Rate::new(self.wins(seat), self.decided())
    }

    /// Games with this ending among all finished games.
    pub fn ending_rate(&self, ending: Ending) -> Rate {
        Rate::new(self.ended(ending), self.games())
    }

    /// Games in which the defender's first utterance is a guess, right or wrong. A game that the attacker's first utterance
    /// decides, by a broken rule, has none.
    pub fn early_guesses(&self) -> usize {
        self.early_guesses
    }

    /// Early guesses among all finished games, ties included.
    pub fn early_guess_rate(&self) -> Rate {
        Rate::new(self.early_guesses, self.games())
    }

    /// Utterances of all games up to the deciding ones.
    pub fn utterances(&self) -> usize {
        self.utterances
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
        self.early_guesses += other.early_guesses;
        self.failed += other.failed;
        self
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{Episode, JudgeKind};

    use super::*;
    use crate::ending::ending;

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
        assert_eq!(counts.won_by_the_rules(), 8);
        assert_eq!(counts.ending_rate(Ending::Tie), Rate::new(4, 14));
        assert_eq!(counts.plus(counts).win_rate(Role::Attacker), Rate::new(10, 20));
        assert_eq!(GameCounts::default().mean_turns(), None);
    }

    #[test]
    fn early_guesses_are_the_defenders_first_utterance() {
        let game = |said: &[&str]| {
            let mut episode = Episode::new("tiger", 5);
            said.iter().for_each(|text| episode.push(episode.next_role(), *text));
            episode
        };
        let mut counts = GameCounts::default();
        for (said, early) in [
            (&["It has stripes.", "I know the word! It is tiger!"][..], 1),
            (&["It has stripes.", "I know the word! It is zebra!"], 2),
            // Too late, no guess, decided before, and after the decision.
            (&["Hello.", "Well.", "It has stripes.", "I know the word! It is tiger!"], 2),
            (&["Hello.", "Maybe you mean the tiger."], 2),
            (&["My tiger has stripes.", "I know the word! It is tiger!"], 2),
            (&["Hello.", "Well."], 2),
        ] {
            let (ending, length) = ending(&game(said), JudgeKind::Paper).unwrap();
            counts.add(ending, length);
            assert_eq!(counts.early_guesses(), early, "{said:?}");
        }
        assert_eq!(counts.early_guess_rate(), Rate::new(2, 6));
        assert_eq!(counts.plus(counts).early_guess_rate(), Rate::new(4, 12));
    }
}
