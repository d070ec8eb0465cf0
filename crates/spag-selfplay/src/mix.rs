//! Several games of one run, each with its share.

use std::path::PathBuf;

use crate::settings::GameSettings;

spag_io::settings! {
    /// `[[games]]`: one of several games of a run.
    pub table GameShare ("a table of [[games]]: game = \"NAME\", share = NUMBER") {
        /// The name of the game.
        pub game: String;
        /// Options of the game, NAME=VALUE, separated by blanks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub game_options: Option<String>;
        /// The file of words or facts, for a game that needs one. Adversarial Taboo has the words of `[words]`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub data: Option<PathBuf>;
        /// Its part of all games, above 0, relative to the sum of all shares.
        pub share: f64 = 1.0;
    }
}

impl GameShare {
    /// The game with its options; all else as in `shared`.
    pub fn rules(&self, shared: &GameSettings) -> GameSettings {
        GameSettings { game: self.game.clone(), game_options: self.game_options.clone(), ..shared.clone() }
    }

    /// The folders of the games in that of a stage: the name of the game, with a number from its second occurrence on.
    ///
    /// ```
    /// use spag_selfplay::GameShare;
    /// let nim = |options: &str| {
    ///     GameShare { game: "nim".into(), game_options: Some(options.into()), ..GameShare::default() }
    /// };
    /// assert_eq!(GameShare::folders(&[nim("piles=[3]"), nim("piles=[4]")]), ["nim", "nim-2"]);
    /// ```
    pub fn folders(games: &[Self]) -> Vec<String> {
        let named = |(at, own): (usize, &Self)| match games[..at].iter().filter(|other| other.game == own.game).count()
        {
            0 => own.game.clone(),
            earlier => format!("{}-{}", own.game, earlier + 1),
        };
        games.iter().enumerate().map(named).collect()
    }

    /// How many of `total` games each game has: its share rounded down; the games that are left go one each to those with
    /// the largest remainders, of equal ones to the earlier.
    ///
    /// ```
    /// use spag_selfplay::GameShare;
    /// let games = [2.0, 1.0, 1.0].map(|share| GameShare { share, ..GameShare::default() });
    /// assert_eq!(GameShare::split(&games, 8), [4, 2, 2]);
    /// assert_eq!(GameShare::split(&games, 7), [3, 2, 2]);
    /// assert_eq!(GameShare::split(&games, 5), [3, 1, 1]);
    /// ```
    pub fn split(games: &[Self], total: usize) -> Vec<usize> {
        // Relative to the largest, so that the sum is finite.
        let largest = games.iter().map(|game| game.share).fold(f64::MIN_POSITIVE, f64::max);
        let sum: f64 = games.iter().map(|game| game.share / largest).sum();
        let exact: Vec<f64> = games.iter().map(|game| total as f64 * (game.share / largest / sum)).collect();
        let mut counts: Vec<usize> = exact.iter().map(|exact| exact.floor() as usize).collect();
        let mut order: Vec<usize> = (0..games.len()).collect();
        order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
        let left = total.saturating_sub(counts.iter().sum());
        order.into_iter().take(left).for_each(|at| counts[at] += 1);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_are_next_to_their_shares() {
        for shares in [vec![1.0], vec![0.1, 0.2, 0.7], vec![1.0; 7], vec![1e-9, 5.0, 3.0], vec![1e300, 1e300]] {
            let games: Vec<GameShare> =
                shares.iter().map(|share| GameShare { share: *share, ..GameShare::default() }).collect();
            let sum: f64 = shares.iter().map(|share| share / shares.len() as f64).sum();
            for total in [0, 1, 2, 10, 99, 1000, 1 << 20] {
                let counts = GameShare::split(&games, total);
                assert_eq!(counts.iter().sum::<usize>(), total, "{shares:?}");
                for (count, share) in counts.iter().zip(&shares) {
                    let exact = total as f64 * (share / shares.len() as f64 / sum);
                    assert!((*count as f64 - exact).abs() < 1.0 + 1e-6, "{shares:?}: {counts:?}");
                }
            }
        }
    }
}
