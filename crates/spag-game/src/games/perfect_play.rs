//! Perfect play in games without chance and secrets: which moves keep the value of their position.

use std::collections::HashMap;
use std::hash::Hash;

use crate::seat::SEATS;

/// The moves of a player in a game, and those that keep the value of their position: no other move is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfectPlay {
    /// All moves.
    pub moves: usize,
    /// Those that keep the value.
    pub kept: usize,
}

impl PerfectPlay {
    /// The share of moves that keep the value; none without moves.
    pub fn share(&self) -> Option<f64> {
        (self.moves > 0).then(|| self.kept as f64 / self.moves as f64)
    }
}

/// A position of a game in which the players alternate.
pub(super) trait Solvable: Clone + Eq + Hash {
    /// A move.
    type Move: Copy + PartialEq;

    /// What the game is worth to the player to move, 1, 0 or −1, once it is over.
    fn result(&self) -> Option<i8>;

    /// The legal moves.
    fn moves(&self) -> Vec<Self::Move>;

    /// The position after a legal move.
    fn after(&self, played: Self::Move) -> Self;
}

/// Counts the moves of each player from a position on. `None` if one of them is illegal or comes after the end.
pub(super) fn count<P: Solvable>(start: P, moves: &[P::Move]) -> Option<[PerfectPlay; SEATS]> {
    let (mut position, mut values) = (start, Values::default());
    let mut counts = [PerfectPlay::default(); SEATS];
    for (turn, played) in moves.iter().enumerate() {
        if position.result().is_some() || !position.moves().contains(played) {
            return None;
        }
        let after = position.after(*played);
        let count = &mut counts[turn % SEATS];
        count.moves += 1;
        count.kept += usize::from(-values.of(&after) == values.of(&position));
        position = after;
    }
    Some(counts)
}

/// The values of positions that were asked for, and of all positions after them.
#[derive(Clone, Debug)]
pub(super) struct Values<P>(HashMap<P, i8>);

impl<P> Default for Values<P> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<P: Solvable> Values<P> {
    /// What a position is worth to the player to move. As deep as the game is long.
    pub(super) fn of(&mut self, position: &P) -> i8 {
        if let Some(result) = position.result() {
            return result;
        }
        if let Some(value) = self.0.get(position) {
            return *value;
        }
        let best = position.moves().into_iter().map(|played| -self.of(&position.after(played))).max().unwrap_or(0);
        self.0.insert(position.clone(), best);
        best
    }

    /// The moves that keep the value of a position; none after the end.
    pub(super) fn best_moves(&mut self, position: &P) -> Vec<P::Move> {
        if position.result().is_some() {
            return Vec::new();
        }
        let value = self.of(position);
        position.moves().into_iter().filter(|played| -self.of(&position.after(*played)) == value).collect()
    }
}
