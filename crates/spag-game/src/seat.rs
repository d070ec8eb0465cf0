//! Seats: the two sides of a game.

use std::fmt;

use serde::{Serialize, Serializer};

/// The number of seats of every game.
pub const SEATS: usize = 2;

/// A side of a game. Written to files by its name, which the game gives it.
///
/// Names read from files are those of the game at hand ([`Labels::reading`](crate::Labels::reading)), of the games of this crate, and
/// `player 0` and `player 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    index: u8,
    name: &'static str,
}

impl Seat {
    /// The first seat of a game that has no names for its seats.
    pub const FIRST: Self = Self::new(0, "player 0");
    /// The second seat of a game that has no names for its seats.
    pub const SECOND: Self = Self::new(1, "player 1");

    /// The seat at `index`, below [`SEATS`], of a game that calls it `name`. A larger index is the last seat.
    pub const fn new(index: usize, name: &'static str) -> Self {
        Self { index: if index == 0 { 0 } else { 1 }, name }
    }

    /// The index in [`Labels::seats`](crate::Labels::seats).
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The name in files, prompts and reports.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The name within a sentence: "the attacker", but "player 0".
    pub fn in_a_sentence(self) -> String {
        if self.name.contains(' ') { self.name.to_owned() } else { format!("the {}", self.name) }
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for Seat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
