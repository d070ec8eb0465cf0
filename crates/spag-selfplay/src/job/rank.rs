//! Which of the processes of a run this is.

use crate::error::{Error, Result};

/// A process of a run, which has a record of its own. Which games it plays is not known beforehand: they are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    number: usize,
    of: usize,
}

impl Rank {
    /// Process `number` (from 0) of `of`.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]: there is no such process.
    pub fn new(number: usize, of: usize) -> Result<Self> {
        match number < of {
            true => Ok(Self { number, of }),
            false => Err(Error::NoSuchRank { rank: number, of }),
        }
    }

    /// A process on its own.
    pub fn alone() -> Self {
        Self { number: 0, of: 1 }
    }

    /// The process, from 0.
    pub fn number(self) -> usize {
        self.number
    }

    /// How many processes there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// Whether it hands out the games and writes the results.
    pub fn is_first(self) -> bool {
        self.number == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_ranks_than_processes() {
        assert_eq!((Rank::alone().number(), Rank::alone().of(), Rank::alone().is_first()), (0, 1, true));
        assert!(!Rank::new(2, 3).unwrap().is_first());
        let said = Rank::new(3, 3).unwrap_err().to_string();
        assert!(said.contains("no rank 3 among 3"), "{said}");
    }
}
