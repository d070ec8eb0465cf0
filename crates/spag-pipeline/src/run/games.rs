//! Playing a set of games into a file, and going on where a killed run stopped.
//!
//! Every finished game is appended at once, by each rank to a file of its own; rank 0 puts them together. Games are independent of each other, each with its own seed, so going on
//! means playing those that are missing; in the end the file is sorted, and equals that of a run never interrupted.

use std::fs;
use std::path::{Path, PathBuf};

use spag_game::{
    FailedGame, FinishedGame, GameRecord, GameSink, GameSpec, Outcome, PlayConfig, PromptSet, Seats, game_seed,
    play_games,
};
use spag_io::Progress;
use spag_selfplay::play_shared;

use super::crew::Crew;
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

/// A [`GameSet`] with this rank's file open.
pub(crate) struct Begun<'a> {
    crew: &'a Crew,
    /// The file that gets all games in the end: rank 0's.
    path: PathBuf,
    record: GameRecord,
}

impl GameSet<'_> {
    /// Reads what was played before, by any rank; a line torn by a kill is dropped from the file.
    pub(crate) fn begin(self, crew: &Crew, max_turns: usize) -> Result<Begun<'_>> {
        let words = self.words.iter().cycle().take(self.count).enumerate();
        let specs = words.map(|(game, word)| GameSpec {
            game,
            target_word: word.clone(),
            max_turns,
            seed: game_seed(self.seed, game),
        });
        let own = match crew.group().rank() {
            0 => self.path.clone(),
            rank => of_rank(&self.path, rank),
        };
        let record = GameRecord::open(own, specs.collect(), self.players)?;
        let mut begun = Begun { crew, path: self.path, record };
        begun.take_in_others()?;
        // Nobody plays before all have read: all know of the same games.
        crew.meet()?;
        Ok(begun)
    }
}

/// Where a rank other than 0 puts its games.
fn of_rank(path: &Path, rank: usize) -> PathBuf {
    path.with_extension(format!("rank{rank}.jsonl"))
}

/// The files of ranks other than 0 that are there, also those of ranks that there are no more.
fn of_ranks(path: &Path) -> Result<Vec<PathBuf>> {
    let (Some(dir), Some(stem)) = (path.parent(), path.file_stem()) else { return Ok(Vec::new()) };
    let stem = format!("{}.rank", stem.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("list it", dir))? {
        let path = entry.map_err(Error::io("list it", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rank = name.strip_prefix(&stem).and_then(|name| name.strip_suffix(".jsonl"));
        if rank.is_some_and(|rank| rank.parse::<usize>().is_ok()) {
            found.push(path);
        }
    }
    Ok(found)
}

impl Begun<'_> {
    /// Reads what other ranks have played.
    fn take_in_others(&mut self) -> Result<()> {
        let files = std::iter::once(self.path.clone()).chain(of_ranks(&self.path)?);
        for file in files.filter(|file| *file != self.record.path() && file.exists()).collect::<Vec<_>>() {
            self.record.merge_file(file)?;
        }
        Ok(())
    }

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
        let queue = self.crew.queue(&self.path.to_string_lossy(), self.record.total())?;
        let mut sink = Scored { record: &mut self.record, score: Score::default(), progress: &mut *progress };
        match &queue {
            Some(queue) => play_shared(queue, missing, seats, prompts, &play_config, &mut sink)?,
            None => play_games(missing, seats, prompts, &play_config, &mut sink)?,
        }
        progress.end();
        // All games have been written by whoever played them.
        drop(queue);
        self.crew.meet()?;
        if self.crew.is_first() {
            self.take_in_others()?;
        }
        if self.is_complete() || !self.crew.is_first() {
            return Ok(());
        }
        let (path, failed) = (self.record.path().to_owned(), self.record.failed_path().to_owned());
        Err(Error::GamesFailed { path, failed, count: self.record.total() - self.record.episodes().len() })
    }

    /// Puts all games into one file, in order.
    pub(crate) fn finish(self) -> Result<()> {
        let Self { crew, path, record } = self;
        crew.first_does(|| {
            write_jsonl(&path, &record.into_episodes())?;
            of_ranks(&path)?.iter().try_for_each(|file| fs::remove_file(file).map_err(Error::io("delete it", file)))
        })
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
