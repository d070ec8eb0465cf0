//! Results of the games on each word, and words drawn towards those that either seat may win.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// What an earlier result counts when a new one is added, so that the policy of today decides.
const DECAY: f64 = 0.9;

/// The results of the words of each of the run's games. Saved with every checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ItemResults {
    by_game: Vec<BTreeMap<String, ItemResult>>,
}

/// Scores of the first seat in the games on a word: a win 1, a tie 1/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ItemResult {
    games: f64,
    sum: f64,
    squares: f64,
}

impl ItemResult {
    fn add(&mut self, score: f64) {
        let Self { games, sum, squares } = *self;
        *self = Self { games: DECAY * games + 1.0, sum: DECAY * sum + score, squares: DECAY * squares + score * score };
    }

    /// The variance of the score, with a win and a loss more: largest for a word that half of the games are won on, small for one
    /// that ends in the same way each time.
    fn variance(self) -> f64 {
        let games = self.games + 2.0;
        let mean = (self.sum + 1.0) / games;
        (self.squares + 1.0) / games - mean * mean
    }
}

impl ItemResults {
    /// Adds the score of the first seat in a game on a word of game `game`.
    pub(super) fn add(&mut self, game: usize, word: &str, score: f64) {
        if self.by_game.len() <= game {
            self.by_game.resize_with(game + 1, BTreeMap::new);
        }
        self.by_game[game].entry(word.to_owned()).or_default().add(score);
    }

    /// The indices of `count` words, each drawn with the variance of its score as weight.
    pub(super) fn draw(&self, game: usize, words: &[String], count: usize, seed: u64) -> Vec<usize> {
        let known = self.by_game.get(game);
        let result = |word| known.and_then(|known| known.get(word)).copied().unwrap_or_default();
        let mut reached = 0.0;
        let up_to: Vec<f64> = words
            .iter()
            .map(|word| {
                reached += result(word).variance();
                reached
            })
            .collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let last = words.len().saturating_sub(1);
        let mut draw = || {
            let target = rng.random::<f64>() * reached;
            up_to.partition_point(|sum| *sum <= target).min(last)
        };
        (0..count).map(|_| draw()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_either_seat_wins_are_drawn_most() {
        let mut results = ItemResults::default();
        for game in 0..40 {
            results.add(0, "won", 1.0);
            results.add(0, "lost", 0.0);
            results.add(0, "tied", 0.5);
            results.add(0, "open", f64::from(game % 2));
        }
        let words: Vec<String> = ["won", "lost", "tied", "open", "new"].map(str::to_owned).into();
        let variance = |word: &str| results.by_game[0].get(word).copied().unwrap_or_default().variance();
        // Ten games count after many, and two more: by hand 11/12 · 1/12 for a word that is always won.
        assert!((variance("won") - 11.0 / 144.0).abs() < 0.002, "{}", variance("won"));
        assert!((variance("tied") - 0.5 / 12.0).abs() < 0.002, "{}", variance("tied"));
        assert!((variance("open") - 0.25).abs() < 0.002 && variance("new") == 0.25);
        let total: f64 = words.iter().map(|word| variance(word)).sum();
        let mut drawn = [0.0; 5];
        results.draw(0, &words, 20_000, 3).into_iter().for_each(|word| drawn[word] += 1.0 / 20_000.0);
        for (drawn, word) in drawn.into_iter().zip(&words) {
            assert!((drawn - variance(word) / total).abs() < 0.02, "{word}: {drawn}");
        }
        assert_eq!(results.draw(0, &words, 9, 3), results.draw(0, &words, 9, 3));
        assert_ne!(results.draw(0, &words, 9, 3), results.draw(0, &words, 9, 4));
        // The results are those of one of the run's games; another one has none yet.
        assert_eq!(results.draw(1, &words, 4, 3).len(), 4);
    }

    #[test]
    fn old_results_fade() {
        let mut result = ItemResult::default();
        (0..100).for_each(|_| result.add(1.0));
        (0..100).for_each(|game| result.add(f64::from(game % 2)));
        assert!((result.variance() - 0.25).abs() < 0.002, "{result:?}");
        assert!((result.games - 10.0).abs() < 0.001);
    }
}
