//! Valid ranges of the settings of games, in flags and configurations.
//!
//! They are far above what a run needs. A number outside of them is a mistake, which is reported before memory is
//! allocated for it.

use std::ops::RangeInclusive;

use spag_io::Limits;

/// Games of a run or of a pairing. The list of games is kept in memory.
pub const GAMES: RangeInclusive<usize> = 1..=1_000_000;
/// Games of a part that can be left out.
pub const GAMES_OR_NONE: RangeInclusive<usize> = 0..=*GAMES.end();
/// Turns of a game.
pub const TURNS: RangeInclusive<usize> = 1..=1000;
/// Failed games in a row.
pub const FAILED_IN_A_ROW: RangeInclusive<usize> = 1..=1_000_000;
/// Concurrent requests to a URL of an endpoint; each takes a thread.
pub const REQUESTS_IN_FLIGHT: RangeInclusive<usize> = 1..=1024;
/// Requests to a URL of an endpoint per minute.
pub const REQUESTS_PER_MINUTE: RangeInclusive<f64> = 0.01..=1e6;
/// Seconds of one attempt of a request.
pub const REQUEST_TIMEOUT: RangeInclusive<f64> = 0.001..=86_400.0;
/// Tokens of a prompt and its completion.
pub const LENGTH: RangeInclusive<usize> = 1..=NEW_TOKENS_AT_MOST;
/// Tokens of a completion.
pub const NEW_TOKENS: RangeInclusive<usize> = 1..=NEW_TOKENS_AT_MOST;
/// Tokens of a completion before it may end.
pub const MIN_NEW_TOKENS: RangeInclusive<usize> = 0..=NEW_TOKENS_AT_MOST;
/// The most likely tokens that are sampled from, where 0 means all.
pub const TOP_K: RangeInclusive<usize> = 0..=1 << 24;
/// The least and the largest probability of the most likely tokens that are sampled from.
pub const TOP_P: RangeInclusive<f64> = 1e-9..=1.0;

/// Sampling temperature; its inverse and all logits divided by it are finite. 0 means greedy.
#[derive(Clone, Copy, Debug)]
pub struct Temperature;

impl Limits for Temperature {
    type Number = f64;

    fn allow(&self, number: f64) -> bool {
        number == 0.0 || (0.0001..=10_000.0).contains(&number)
    }

    fn expected(&self) -> String {
        "expected a number of at least 0.0001 and at most 10000, or 0".to_owned()
    }
}

const NEW_TOKENS_AT_MOST: usize = 1 << 20;

/// The number of games of a run on `words` words, if it is in [`GAMES`].
///
/// # Errors
/// What is wrong with it, without the name of a flag.
pub fn total_games(words: usize, games_per_word: usize) -> Result<usize, String> {
    let total = words.checked_mul(games_per_word).filter(|total| GAMES.contains(total));
    total.ok_or_else(|| format!("{words} words with {games_per_word} games each; a run has 1 to {} games", GAMES.end()))
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
