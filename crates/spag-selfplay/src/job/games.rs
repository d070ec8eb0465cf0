//! The games of a job, from words and a seed.

use spag_game::{GameSpec, game_seed};

use crate::error::{Error, Result};
use crate::limits;

/// One game per word. The seed of a game depends only on `seed` and the number of the game.
///
/// ```
/// let words = ["tea".to_owned(), "bear".to_owned()];
/// let games = spag_selfplay::game_specs(words.iter().rev(), 5, 9);
/// assert_eq!((games[1].number, games[1].item.as_str()), (1, "tea"));
/// assert_eq!(games[1].seed, spag_game::game_seed(9, 1));
/// ```
pub fn game_specs<'a>(words: impl Iterator<Item = &'a String>, max_turns: usize, seed: u64) -> Vec<GameSpec> {
    let spec = |(number, word): (usize, &String)| GameSpec {
        number,
        item: word.clone(),
        max_turns,
        seed: game_seed(seed, number),
        sampling_seed: None,
    };
    words.enumerate().map(spec).collect()
}

/// `games` games on every word, in the order of the words.
///
/// ```
/// let words = ["tea".to_owned(), "bear".to_owned()];
/// let games = spag_selfplay::games_per_word(&words, 2, 5, 9)?;
/// assert_eq!(games.iter().map(|game| game.item.as_str()).collect::<Vec<_>>(), ["tea", "tea", "bear", "bear"]);
/// # Ok::<(), spag_selfplay::Error>(())
/// ```
///
/// # Errors
/// No games, or more than [`limits::GAMES`].
pub fn games_per_word(words: &[String], games: usize, max_turns: usize, seed: u64) -> Result<Vec<GameSpec>> {
    limits::total_games(words.len(), games).map_err(Error::TooManyGames)?;
    Ok(game_specs(words.iter().flat_map(|word| std::iter::repeat_n(word, games)), max_turns, seed))
}

/// `count` games on the words, which begin again after the last one.
///
/// ```
/// let words = ["tea".to_owned(), "bear".to_owned()];
/// let games = spag_selfplay::games_on_cycled_words(&words, 3, 5, 9);
/// assert_eq!(games.iter().map(|game| game.item.as_str()).collect::<Vec<_>>(), ["tea", "bear", "tea"]);
/// ```
pub fn games_on_cycled_words(words: &[String], count: usize, max_turns: usize, seed: u64) -> Vec<GameSpec> {
    game_specs(words.iter().cycle().take(count), max_turns, seed)
}
