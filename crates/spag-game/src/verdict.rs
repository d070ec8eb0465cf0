//! How a game ended.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::ending::{Ending, Play};
use crate::seat::{SEATS, Seat};

/// The end of a game: its ending, its winner and its length.
///
/// In files it is an object with `outcome`, the name of a group of endings, and `history_length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How the game ended.
    pub ending: Ending,
    winner: Option<Seat>,
    /// Utterances up to and including the deciding one, or all of the game's turns.
    pub history_length: usize,
    /// What each seat won or lost, by [`Seat::index`], in a game that counts it ([`Game::amounts`](crate::Game::amounts)). `None` in
    /// others, and if a rule was broken.
    pub amounts: Option<[i64; SEATS]>,
}

impl Verdict {
    /// A game with the winner of its ending, or a tie.
    pub fn of(ending: Ending, history_length: usize) -> Self {
        Self { ending, winner: ending.winner, history_length, amounts: None }
    }

    /// A game that `winner` wins.
    pub fn won_by(winner: Seat, ending: Ending, history_length: usize) -> Self {
        Self { ending, winner: Some(winner), history_length, amounts: None }
    }

    /// The winner in statistics and ratings, `None` for a tie. If a rule was broken, the seat that did not break it.
    pub fn winner(&self) -> Option<Seat> {
        self.winner
    }

    /// The winner whose utterances earn rewards in the paper's credit: none if a rule was broken.
    pub fn rewarded_winner(&self) -> Option<Seat> {
        self.winner.filter(|_| self.ending.play == Play::ByTheRules)
    }

    /// The reward of a seat: 1 for the winner, −1 for the loser, 0 in a tie.
    pub fn reward(&self, seat: Seat) -> f64 {
        match self.winner {
            Some(winner) if winner == seat => 1.0,
            Some(_) => -1.0,
            None => 0.0,
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut verdict = serializer.serialize_struct("Verdict", 2)?;
        verdict.serialize_field("outcome", self.ending.outcome)?;
        verdict.serialize_field("history_length", &self.history_length)?;
        verdict.end()
    }
}
