//! A resumable set of games with one result file.
//!
//! Each rank appends its finished games to its own file, and rank 0 merges the files. Games are independent and have
//! their own seeds, so a resumed set ends with the same file as an uninterrupted one.

use std::fs;
use std::path::{Path, PathBuf};

use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink, PlayConfig, Role, Seats, play_games};
use spag_io::{PlayedGames, Progress, Provenance, write_jsonl_atomically};
use spag_selfplay::{Ending, GameCounts, game_specs, play_shared};

use super::context::RunContext;
use super::folder::StageDone;
use crate::error::{Error, Result};

/// Games to be played on the words of the run.
#[derive(Clone, Debug)]
pub(super) struct GameSet {
    /// The JSONL file of all games.
    pub(super) path: PathBuf,
    /// Number of games; words are cycled.
    pub(super) count: usize,
    /// The seed from which the seeds of the games are derived.
    pub(super) seed: u64,
    /// The players, as noted in the record.
    pub(super) players: String,
}

/// A [`GameSet`] with the record of this rank open.
pub(super) struct OpenGameSet<'a> {
    run: RunContext<'a>,
    /// The file of all games, which is also the record of rank 0.
    path: PathBuf,
    seed: u64,
    record: GameRecord,
}

impl GameSet {
    /// Plays the missing games and writes the file of all games. `play` is only called if games are missing; it opens the
    /// players and calls [`OpenGameSet::play`].
    pub(super) fn complete(
        self,
        run: RunContext<'_>,
        done: &mut StageDone,
        play: impl FnOnce(&mut OpenGameSet<'_>) -> Result<()>,
    ) -> Result<()> {
        done.timed("play", || {
            let mut games = self.open(run)?;
            if !games.is_complete() {
                play(&mut games)?;
            }
            games.finish()
        })
    }

    /// Opens the record of this rank, and reads the finished games of all ranks.
    fn open(self, run: RunContext<'_>) -> Result<OpenGameSet<'_>> {
        let words = run.inputs.words.iter().cycle().take(self.count);
        let specs = game_specs(words, run.config.max_turns, self.seed);
        let own = match run.ranks.group.rank() {
            0 => self.path.clone(),
            rank => self.path.with_extension(format!("rank{rank}.jsonl")),
        };
        let record = GameRecord::open(own, specs, self.players)?;
        let mut open = OpenGameSet { run, path: self.path, seed: self.seed, record };
        open.merge_other_ranks()?;
        // All ranks must have read the same games before one of them plays.
        run.ranks.barrier()?;
        Ok(open)
    }
}

/// The existing records of ranks other than 0, including ranks of earlier launches.
fn rank_files(path: &Path) -> Result<Vec<PathBuf>> {
    let (Some(dir), Some(stem)) = (path.parent(), path.file_stem()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.rank", stem.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("list it", dir))? {
        let path = entry.map_err(Error::io("list it", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rank = name.strip_prefix(&prefix).and_then(|name| name.strip_suffix(".jsonl"));
        if rank.is_some_and(|rank| rank.parse::<usize>().is_ok()) {
            found.push(path);
        }
    }
    Ok(found)
}

impl OpenGameSet<'_> {
    fn merge_other_ranks(&mut self) -> Result<()> {
        for file in std::iter::once(self.path.clone()).chain(rank_files(&self.path)?) {
            if file != self.record.path() && file.exists() {
                self.record.merge_file(file)?;
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.record.episodes().len() >= self.record.total()
    }

    /// Plays the missing games.
    pub(super) fn play(&mut self, seats: Seats<'_>, progress: &mut dyn Progress) -> Result<()> {
        let RunContext { config, ranks, inputs } = self.run;
        let play_config = PlayConfig {
            judge: config.judge,
            games_in_flight: config.self_play.games_in_flight,
            ..PlayConfig::default()
        };
        let total = self.record.total();
        progress.resume("games", total as u64, self.record.episodes().len() as u64);
        let missing = self.record.missing();
        let queue = ranks.queue(&self.path.to_string_lossy(), total)?;
        let mut sink = Recorder { record: &mut self.record, counts: GameCounts::default(), progress: &mut *progress };
        match &queue {
            Some(queue) => play_shared(queue, missing, seats, &inputs.prompts, &play_config, &mut sink)?,
            None => play_games(missing, seats, &inputs.prompts, &play_config, &mut sink)?,
        }
        progress.end();
        drop(queue);
        ranks.barrier()?;
        if !ranks.is_rank_0() {
            return Ok(());
        }
        self.merge_other_ranks()?;
        if self.is_complete() {
            return Ok(());
        }
        let (path, failed) = (self.record.path().to_owned(), self.record.failed_path().to_owned());
        Err(Error::GamesFailed { path, failed, count: total - self.record.episodes().len() })
    }

    /// Writes all games into one file, in order, and deletes the files of other ranks.
    fn finish(self) -> Result<()> {
        let Self { run, path, seed, record } = self;
        run.ranks.on_rank_0(|| {
            write_jsonl_atomically(&path, &record.into_episodes())?;
            let wordings = vec![run.inputs.prompts.wordings().clone()];
            Provenance { wordings, games: vec![PlayedGames::new(seed, &run.inputs.words)] }.write_of(&path)?;
            rank_files(&path)?.iter().try_for_each(|file| fs::remove_file(file).map_err(Error::io("delete it", file)))
        })
    }
}

/// Appends games to the record, and shows the win rates as the note of the progress.
struct Recorder<'a> {
    record: &'a mut GameRecord,
    counts: GameCounts,
    progress: &'a mut dyn Progress,
}

impl GameSink for Recorder<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.counts.add(Ending::of(&game.verdict, &game.episode), game.verdict.history_length);
        self.record.add(game)?;
        let percent = |count: usize| 100.0 * count as f64 / self.counts.games() as f64;
        let (attacker, defender) = (self.counts.wins(Role::Attacker), self.counts.ended(Ending::RightGuess));
        let note = format!("attacker {:.0}%, defender {:.0}%", percent(attacker), percent(defender));
        self.progress.advance(self.record.episodes().len() as u64, &note);
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.record.add_failed(game)
    }
}
