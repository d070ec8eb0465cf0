//! A run of self-play from words to results, in one process or several, that outlives a kill.

mod files;
mod finish;
mod open;
mod rank;
mod run_stats;
mod watch;

pub use files::RunFiles;
pub use finish::Finished;
pub use open::OpenJob;
pub use rank::Rank;
pub use run_stats::{Played, PlayerWork, RunStats};
pub use watch::{JobWatcher, SoFar};

use spag_game::{GameSpec, PlayConfig, game_seed};

use crate::error::Result;

/// Games to be played on a list of words, and where they go.
///
/// Every process of the run has the same job but for its [`Rank`]. Rank 0 hands the games out; each process appends what
/// it plays to a record of its own and reads those of the others, so that nothing is played twice, whatever was stopped
/// and however many processes there were before. Rank 0 writes the results.
#[derive(Clone, Debug)]
pub struct PlayJob {
    /// Target words.
    pub words: Vec<String>,
    /// Games on every word.
    pub games_per_word: usize,
    /// Turns of a game at most.
    pub max_turns: usize,
    /// Seed that the games' seeds come from.
    pub seed: u64,
    /// Who plays and how, as a [`GameRecord`](spag_game::GameRecord) notes it.
    pub players: String,
    /// The rules, and what ends a run. How many games are in flight is told when they are played.
    pub play: PlayConfig,
    /// Where the games go.
    pub files: RunFiles,
    /// Which process this is.
    pub rank: Rank,
}

impl PlayJob {
    /// Every game of the run, in the order of the words. A game's seed follows from the job's seed and the game's number
    /// alone, whoever plays it.
    pub fn specs(&self) -> Vec<GameSpec> {
        let games = self.words.iter().flat_map(|word| std::iter::repeat_n(word, self.games_per_word));
        let spec = |(game, word): (usize, &String)| GameSpec {
            game,
            target_word: word.clone(),
            max_turns: self.max_turns,
            seed: game_seed(self.seed, game),
        };
        games.enumerate().map(spec).collect()
    }

    /// Opens the record of this process, and reads what it and others have played before.
    ///
    /// # Errors
    /// A file that cannot be read or written, that another process writes to, or that holds games of another run.
    pub fn open(self) -> Result<OpenJob> {
        OpenJob::open(self)
    }
}
