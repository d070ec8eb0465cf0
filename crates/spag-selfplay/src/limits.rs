//! Valid ranges of the settings of games, in flags and configurations.
//!
//! They are far above what a run needs. A number outside of them is a mistake, which is reported before memory is
//! allocated for it.

use std::ops::RangeInclusive;

use spag_io::{Range, in_range};

/// The most tokens of a prompt or a completion.
const MOST_TOKENS: usize = 1 << 20;

spag_io::ranges! {
    /// Games of a run or of a pairing. The list of games is kept in memory.
    Games: usize = 1..=1_000_000;
    /// Games of a part that can be left out.
    GamesOrNone: usize = 0..=1_000_000;
    /// Turns of a game.
    Turns: usize = 1..=1000;
    /// Failed games in a row.
    FailedInARow: usize = 1..=1_000_000;
    /// Concurrent requests to a URL of an endpoint; each takes a thread.
    RequestsInFlight: usize = 1..=1024;
    /// Requests to a URL of an endpoint per minute.
    RequestsPerMinute: f64 = 0.01..=1e6;
    /// Seconds of one attempt of a request.
    RequestTimeout: f64 = 0.001..=86_400.0;
    /// Tokens of a prompt and its completion.
    Length: usize = 1..=MOST_TOKENS;
    /// Tokens of a completion.
    NewTokens: usize = 1..=MOST_TOKENS;
    /// Tokens of a completion before it may end.
    MinNewTokens: usize = 0..=MOST_TOKENS;
    /// The most likely tokens that are sampled from, where 0 means all.
    TopK: usize = 0..=1 << 24;
    /// The least and the largest probability of the most likely tokens that are sampled from.
    TopP: f64 = 1e-9..=1.0;
}

/// Sampling temperature; its inverse and all logits divided by it are finite. 0 means greedy.
#[derive(Clone, Copy, Debug)]
pub enum Temperature {}

impl Range for Temperature {
    type Number = f64;
    const RANGE: RangeInclusive<f64> = 0.0001..=10_000.0;

    fn check(value: f64) -> Result<f64, String> {
        if value == 0.0 { Ok(value) } else { in_range(value, Self::RANGE).map_err(|expected| expected + ", or 0") }
    }
}

/// The number of games of a run on `words` words, if it is in [`Games`].
///
/// # Errors
/// What is wrong with it, without the name of a flag.
pub fn total_games(words: usize, games_per_word: usize) -> Result<usize, String> {
    let total = words.checked_mul(games_per_word).filter(|total| Games::RANGE.contains(total));
    let most = *Games::RANGE.end();
    total.ok_or_else(|| format!("{words} words with {games_per_word} games each; a run has 1 to {most} games"))
}

#[cfg(test)]
mod tests {
    use super::total_games;

    #[test]
    fn games_of_a_run_are_bounded_without_overflow() {
        assert_eq!(total_games(1000, 1000), Ok(1_000_000));
        for (words, games) in [(1001, 1000), (2, usize::MAX), (usize::MAX, usize::MAX), (0, 1)] {
            assert!(total_games(words, games).unwrap_err().contains("1 to 1000000 games"), "{words} {games}");
        }
    }
}
