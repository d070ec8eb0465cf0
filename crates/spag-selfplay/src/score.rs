//! Mean scores: a win is 1, a loss −1, a tie 0.

use crate::rate::{Change, Z95};

/// The score of a player over games: wins minus losses, of all games. Unlike a win rate among decided games, it also counts the
/// games that ended in a tie.
///
/// ```
/// use spag_selfplay::Score;
/// // Ten more points of a hundred games: from 30 wins and 50 losses to 20 wins and 30 losses.
/// let change = Score { wins: 30, losses: 50, games: 100 }.change(Score { wins: 20, losses: 30, games: 100 }).unwrap();
/// assert_eq!(change.to_string(), "+10.0 [−12.0, +32.0]");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Games that the player won.
    pub wins: usize,
    /// Games that the player lost.
    pub losses: usize,
    /// All games.
    pub games: usize,
}

impl Score {
    /// The score over the games of both.
    pub fn pooled(self, other: Self) -> Self {
        let Self { wins, losses, games } = other;
        Self { wins: self.wins + wins, losses: self.losses + losses, games: self.games + games }
    }

    /// The mean score, −1 to 1; `None` without games.
    pub fn mean(self) -> Option<f64> {
        (self.games > 0).then(|| (self.wins as f64 - self.losses as f64) / self.games as f64)
    }

    /// The change to another score in points (hundredths), with the 95% interval of normally distributed means. The games of both
    /// must be independent. `None` if either has no games.
    pub fn change(self, new: Self) -> Option<Change> {
        let points = 100.0 * (new.mean()? - self.mean()?);
        let half = 100.0 * Z95 * (self.squared_error()? + new.squared_error()?).sqrt();
        Some(Change { points, low: points - half, high: points + half })
    }

    /// The squared standard error of the mean. Half a win and half a loss are added, so that it is not 0 if all games ended alike.
    fn squared_error(self) -> Option<f64> {
        let mean = self.mean()?;
        let square = (self.wins + self.losses + 1) as f64 / (self.games + 1) as f64;
        Some((square - mean * mean).max(0.0) / self.games as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_games() {
        let score = |wins, losses, games| Score { wins, losses, games };
        assert_eq!(score(3, 1, 8).mean(), Some(0.25));
        assert_eq!(score(3, 1, 8).pooled(score(0, 2, 2)).mean(), Some(0.0));
        assert_eq!(score(0, 0, 0).mean(), None);
        assert!(score(0, 0, 0).change(score(1, 0, 1)).is_none());
        // From many losses to ties only.
        let change = score(100, 300, 400).change(score(0, 0, 400)).unwrap();
        assert_eq!(change.points, 50.0);
        assert!(change.low > 41.0 && change.high < 59.0, "{change}");
    }
}
