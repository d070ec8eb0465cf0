//! Playing a set of games into a file, and going on where a killed run stopped.
//!
//! Every finished game is appended at once. Games are independent of each other, each with its own seed, so going on
//! means playing those that are missing; in the end the file is sorted, and equals that of a run never interrupted.

use std::path::PathBuf;

use spag_game::{
    Episode, FailedGame, FinishedGame, GameRecord, GameSink, GameSpec, Outcome, PlayConfig, PromptSet, Seats,
    game_seed, play_games,
};
use spag_train::Progress;

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::files::write_jsonl;

/// Games to be played: which, and where to.
#[derive(Clone, Debug)]
pub(crate) struct GameSet<'a> {
    /// The JSONL file that gets them.
    pub(crate) path: PathBuf,
    /// Target words, taken in turn.
    pub(crate) words: &'a [String],
    /// How many games.
    pub(crate) count: usize,
    /// Seed that the games' seeds come from.
    pub(crate) seed: u64,
    /// Who plays, as the record notes it. The run folder knows their settings.
    pub(crate) players: String,
}

/// A [`GameSet`] with its file open.
#[derive(Debug)]
pub(crate) struct Begun {
    record: GameRecord,
}

impl GameSet<'_> {
    /// Reads what was played before; a line torn by a kill is dropped from the file.
    pub(crate) fn begin(self, max_turns: usize) -> Result<Begun> {
        let words = self.words.iter().cycle().take(self.count).enumerate();
        let specs = words.map(|(game, word)| GameSpec {
            game,
            target_word: word.clone(),
            max_turns,
            seed: game_seed(self.seed, game),
        });
        Ok(Begun { record: GameRecord::open(&self.path, specs.collect(), self.players)? })
    }
}

impl Begun {
    /// Whether anything is left to play.
    pub(crate) fn is_complete(&self) -> bool {
        self.record.episodes().len() >= self.record.total()
    }

    /// Plays the missing games.
    pub(crate) fn play(
        &mut self,
        seats: Seats<'_>,
        prompts: &PromptSet,
        config: &RunConfig,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let play_config = PlayConfig {
            judge: config.judge,
            games_in_flight: config.self_play.games_in_flight,
            ..PlayConfig::default()
        };
        let before = self.record.episodes().len();
        progress.resume("games", self.record.total() as u64, before as u64);
        let missing = self.record.missing();
        let mut sink = Scored { record: &mut self.record, score: Score::default(), progress: &mut *progress };
        play_games(missing, seats, prompts, &play_config, &mut sink)?;
        progress.end();
        if self.is_complete() {
            return Ok(());
        }
        let (path, failed) = (self.record.path().to_owned(), self.record.failed_path().to_owned());
        Err(Error::GamesFailed { path, failed, count: self.record.total() - self.record.episodes().len() })
    }

    /// Sorts the file and hands out its games in order.
    pub(crate) fn finish(self) -> Result<Vec<Episode>> {
        let path = self.record.path().to_owned();
        let episodes = self.record.into_episodes();
        write_jsonl(&path, &episodes)?;
        Ok(episodes)
    }
}

/// Puts games into the record, and the score beside the bar.
struct Scored<'a> {
    record: &'a mut GameRecord,
    score: Score,
    progress: &'a mut dyn Progress,
}

impl GameSink for Scored<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.score.add(game.verdict.outcome);
        self.record.add(game)?;
        self.progress.advance(self.record.episodes().len() as u64, &self.score.describe());
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.record.add_failed(game)
    }
}

/// Who wins, for the note beside the bar.
#[derive(Debug, Default)]
struct Score {
    attacker: usize,
    defender: usize,
    games: usize,
}

impl Score {
    fn add(&mut self, outcome: Outcome) {
        self.games += 1;
        match outcome {
            Outcome::AttackerWins => self.attacker += 1,
            Outcome::DefenderWins => self.defender += 1,
            Outcome::AttackerBreaksRules | Outcome::Tie => {}
        }
    }

    fn describe(&self) -> String {
        let percent = |count: usize| 100.0 * count as f64 / self.games.max(1) as f64;
        format!("attacker {:.0}%, defender {:.0}%", percent(self.attacker), percent(self.defender))
    }
}
