//! A resumable run of self-play in one or several processes, from words to results.

mod files;
mod open;
mod run_stats;

pub use files::RunFiles;
pub use open::{Finished, JobObserver, OpenJob, SoFar};
pub use run_stats::{Played, PlayerWork, RunStats};

use spag_game::{GameSpec, PlayConfig, game_seed};

use crate::error::Result;

/// Games to be played on a list of words, and the files that they are written to.
///
/// All processes of a run have the same job except for the rank. Rank 0 hands out the games and writes the results. Each
/// process appends its games to its own record and reads the records of all ranks, including ranks of earlier launches,
/// so that no finished game is played again.
#[derive(Clone, Debug)]
pub struct PlayJob {
    /// Target words.
    pub words: Vec<String>,
    /// Games per word.
    pub games_per_word: usize,
    /// Maximum turns of a game.
    pub max_turns: usize,
    /// The seed from which the seeds of the games are derived.
    pub seed: u64,
    /// The players and their settings, as noted in a [`GameRecord`](spag_game::GameRecord).
    pub players: String,
    /// The judge and the limits of a run. The number of games in flight is an argument of [`OpenJob::play`].
    pub play: PlayConfig,
    /// The files of the run.
    pub files: RunFiles,
    /// The rank of this process.
    pub rank: usize,
    /// The number of processes.
    pub world_size: usize,
}

impl PlayJob {
    /// All games of the run, in the order of the words.
    pub fn specs(&self) -> Vec<GameSpec> {
        let words = self.words.iter().flat_map(|word| std::iter::repeat_n(word, self.games_per_word));
        game_specs(words, self.max_turns, self.seed)
    }

    /// Opens the record of this process, and reads the games that it and others have played.
    ///
    /// # Errors
    /// A file that cannot be read or written, that another process writes to, or that has games of another run.
    pub fn open(self) -> Result<OpenJob> {
        OpenJob::open(self)
    }
}

/// One game per word. The seed of a game depends only on `seed` and the number of the game.
///
/// ```
/// let words = ["tea".to_owned(), "bear".to_owned()];
/// let games = spag_selfplay::game_specs(words.iter().cycle().take(3), 5, 9);
/// assert_eq!((games[2].game, games[2].target_word.as_str()), (2, "tea"));
/// assert_eq!(games[2].seed, spag_game::game_seed(9, 2));
/// ```
pub fn game_specs<'a>(words: impl Iterator<Item = &'a String>, max_turns: usize, seed: u64) -> Vec<GameSpec> {
    let spec = |(game, word): (usize, &String)| GameSpec {
        game,
        target_word: word.clone(),
        max_turns,
        seed: game_seed(seed, game),
    };
    words.enumerate().map(spec).collect()
}
