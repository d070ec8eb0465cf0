//! Which games of a run a process plays.

use crate::error::{Error, Result};

/// A process's part of a run: the games whose number leaves its rank as the remainder when divided by the number of
/// processes. So no game has two processes, and none is played twice to make the parts equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    rank: usize,
    of: usize,
}

impl Share {
    /// The part of process `rank` (from 0) of `of`.
    ///
    /// # Errors
    /// [`Error::NoSuchShare`]: there is no such process.
    pub fn new(rank: usize, of: usize) -> Result<Self> {
        match rank < of {
            true => Ok(Self { rank, of }),
            false => Err(Error::NoSuchShare { rank, of }),
        }
    }

    /// Everything, for a process on its own.
    pub fn all() -> Self {
        Self { rank: 0, of: 1 }
    }

    /// The process, from 0.
    pub fn rank(self) -> usize {
        self.rank
    }

    /// How many processes there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// Whether the game of this number belongs to it.
    pub fn holds(self, game: usize) -> bool {
        game % self.of == self.rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_game_is_in_one_share() {
        for of in 1..5 {
            let shares: Vec<Share> = (0..of).map(|rank| Share::new(rank, of).unwrap()).collect();
            assert!((0..50).all(|game| shares.iter().filter(|share| share.holds(game)).count() == 1));
            let said = Share::new(of, of).unwrap_err().to_string();
            assert!(said.contains(&format!("{of}")), "{said}");
        }
    }
}
