//! One way to play many games: a resumable job in one or several processes, from words to results.

mod files;
mod finish;
mod games;
mod open;
mod ranks;
mod recorder;
mod run_stats;

pub use files::JobFiles;
pub use finish::Finished;
pub use games::{game_specs, games_on_cycled_words, games_per_word};
pub use open::OpenJob;
pub use ranks::Ranks;
pub use recorder::{JobObserver, SoFar};
pub use run_stats::{Played, PlayerWork, RunStats};

use spag_game::{Game, GameSpec, PlayConfig};

/// Games to be played, the processes that share them, and the files that they are written to.
///
/// All processes of a run have the same job except for the rank. Rank 0 hands out the games and writes the results. Each
/// process appends its games to its own record and reads the records of all ranks, including ranks of earlier launches,
/// so that no finished game is played again.
///
/// ```
/// use spag_game::{PlayConfig, Seats, ScriptedPolicy, Taboo};
/// use spag_selfplay::{Finished, JobFiles, JobObserver, PlayJob, Ranks, SoFar, games_per_word};
///
/// struct Silent;
/// impl JobObserver for Silent {
///     fn game_ended(&mut self, _: SoFar<'_>) {}
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let game = Taboo::default();
/// let mut job = PlayJob {
///     game: &game,
///     games: games_per_word(&["tea".to_owned(), "bear".to_owned()], 3, 5, 42)?,
///     players: "both=script".to_owned(),
///     play: PlayConfig::default(),
///     files: JobFiles::ordered(folder.path().join("episodes.jsonl")),
///     ranks: Ranks::Single,
/// }
/// .open()?;
/// if job.recorded() < job.total() {
///     let mut player = ScriptedPolicy::lines(["It is hot.", "I know the word! It is tea!"]);
///     job.play(Seats::SelfPlay(&mut player), 64, &mut Silent)?;
/// }
/// let run = job.run_stats();
/// let Finished::Written { stats, missing: 0, .. } = job.finish(&run)? else { panic!() };
/// assert_eq!((stats.counts().games(), run.played.finished), (6, 6));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PlayJob<'g> {
    /// The game that is played.
    pub game: &'g dyn Game,
    /// The games, numbered from 0: [`games_per_word`], [`games_on_cycled_words`] or [`game_specs`].
    pub games: Vec<GameSpec>,
    /// The players and their settings, as noted in a [`GameRecord`](spag_game::GameRecord).
    pub players: String,
    /// The limits of a run. The number of games in flight is an argument of [`OpenJob::play`].
    pub play: PlayConfig,
    /// The files of the run.
    pub files: JobFiles,
    /// The processes that share the games.
    pub ranks: Ranks,
}
