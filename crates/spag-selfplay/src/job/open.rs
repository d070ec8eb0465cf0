//! A job with its record open: plays the missing games and writes the results.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use sha2::{Digest, Sha256};
use spag_dist::queue::{Assignment, Queue};
use spag_dist::{JoinOptions, LaunchEnv};
use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink, GameSpec, PlayConfig, PromptSet, Seats, play_games};
use spag_io::{FileLock, hex, write_json_atomically};

use super::{PlayJob, Played, RunStats};
use crate::error::{Error, Result};
use crate::game_stats::GameStats;
use crate::limits;
use crate::shared_games::play_shared;

/// A [`PlayJob`] whose record this process has locked.
#[derive(Debug)]
pub struct OpenJob {
    job: PlayJob,
    record: GameRecord,
    stats: GameStats,
    /// Hands out the games once the processes have joined.
    queue: Option<Queue>,
}

/// The state of a run when one of its processes has finished.
#[derive(Clone, Debug, PartialEq)]
pub enum Finished {
    /// On rank 0: the results are written.
    Written {
        /// The file of all finished games, in the order of the words.
        results: PathBuf,
        /// Their statistics.
        stats: Box<GameStats>,
        /// Missing games: they failed, or a process was stopped.
        missing: usize,
        /// Ranks that hung or never joined. Their games were reassigned.
        lost: Vec<spag_dist::Error>,
    },
    /// On another rank: rank 0 writes the results.
    ByRankZero,
}

/// The summary file.
#[derive(Serialize)]
struct SummaryFile<'a> {
    missing: usize,
    #[serde(flatten)]
    games: &'a GameStats,
    this_run: &'a RunStats,
}

/// Observes games while they are played, and can stop the run.
pub trait JobObserver {
    /// A game has ended and is on disk.
    fn game_ended(&mut self, so_far: SoFar<'_>);

    /// On rank 0: a rank has hung, and its games are reassigned.
    fn rank_lost(&mut self, lost: &spag_dist::Error) {
        let _ = lost;
    }

    /// Whether to continue; called at least about ten times a second. After `false`, games in flight are dropped and
    /// played from their start by the next run.
    fn should_continue(&mut self) -> bool {
        true
    }
}

/// The progress of a process.
#[derive(Clone, Copy, Debug)]
pub struct SoFar<'a> {
    /// All known games, including those of earlier runs and of other processes.
    pub stats: &'a GameStats,
    /// Games that this process has finished since its start.
    pub finished: u64,
    /// Games that failed since its start.
    pub failed: u64,
}

impl OpenJob {
    pub(super) fn open(job: PlayJob) -> Result<Self> {
        limits::total_games(job.words.len(), job.games_per_word).map_err(Error::TooManyGames)?;
        let specs = job.specs();
        // `is_taken` locks a file for a moment, so no other process may call it while this one locks its record.
        let gate = FileLock::wait(job.files.lock())?;
        for (rank, path) in job.files.records()? {
            if rank >= job.world_size && FileLock::is_taken(&path)? {
                // A run with more processes is active and would play the same games.
                return Err(spag_io::Error::InUse { path, holder: None }.into());
            }
        }
        let record = GameRecord::open(job.files.record(job.rank), specs, job.players.clone())?;
        drop(gate);
        let mut stats = GameStats::new(job.play.judge);
        record.episodes().try_for_each(|episode| stats.add(episode))?;
        let mut open = Self { job, record, stats, queue: None };
        open.read_other_ranks()?;
        Ok(open)
    }

    /// Reads the records of all other ranks.
    fn read_other_ranks(&mut self) -> Result<()> {
        let own = self.job.rank;
        for (_, path) in self.job.files.records()?.into_iter().filter(|(rank, _)| *rank != own) {
            for game in self.record.merge_file(&path)? {
                self.record.episode(game).map_or(Ok(()), |episode| self.stats.add(episode))?;
            }
        }
        Ok(())
    }

    /// All games of the run.
    pub fn total(&self) -> usize {
        self.record.total()
    }

    /// Games of the run that are known to be finished.
    pub fn recorded(&self) -> usize {
        self.record.episodes().len()
    }

    /// Games of the run that are missing as far as this process knows, in order.
    pub fn missing(&self) -> Vec<GameSpec> {
        self.record.missing()
    }

    /// Statistics of the finished games.
    pub fn stats(&self) -> &GameStats {
        &self.stats
    }

    /// The file of failed games, which may not exist yet.
    pub fn failed_path(&self) -> &Path {
        self.record.failed_path()
    }

    /// Joins the processes of the run; rank 0 waits for the others. All ranks call this before they load models.
    ///
    /// # Errors
    /// Rank 0 cannot be reached, or a rank has another job.
    pub fn join(&mut self, env: &LaunchEnv, options: &JoinOptions) -> Result<()> {
        let specs = self.job.specs();
        let mut hash = Sha256::new();
        for spec in &specs {
            hash.update(spec.seed.to_le_bytes());
            hash.update(spec.target_word.as_bytes());
            hash.update([0]);
        }
        let words = hex(&hash.finalize()[..8]);
        let task = format!("{}; max_turns={}; words and seeds {words}", self.job.players, self.job.max_turns);
        self.queue = Some(Queue::open(env, options, &task, specs.len())?);
        Ok(())
    }

    /// Tells the other processes that all games are finished, if this one has found no missing game, and waits until all
    /// processes know it.
    ///
    /// # Errors
    /// Rank 0 is lost.
    pub fn report_all_finished(&self) -> Result<()> {
        let Some(queue) = &self.queue else { return Ok(()) };
        while let Assignment::Items(games) = queue.next(self.total())? {
            queue.done(&games)?;
        }
        Ok(())
    }

    /// Plays the missing games, `games_in_flight` at a time: all of them, or the share of this process. Returns when all
    /// processes have finished all games, or when the observer stops it.
    ///
    /// # Errors
    /// As [`play_games`], or rank 0 is lost. All games that were finished before are on disk.
    pub fn play(
        &mut self,
        seats: Seats<'_>,
        prompts: &PromptSet,
        games_in_flight: usize,
        observer: &mut dyn JobObserver,
    ) -> Result<Played> {
        let missing = self.missing();
        let config = PlayConfig { games_in_flight, ..self.job.play };
        let (record, stats) = (&mut self.record, &mut self.stats);
        let mut sink =
            Recorder { record, stats, observer, queue: self.queue.as_ref(), lost: 0, played: Played::default() };
        let began = Instant::now();
        match &self.queue {
            Some(queue) => play_shared(queue, missing, seats, prompts, &config, &mut sink)?,
            None => play_games(missing, seats, prompts, &config, &mut sink)?,
        }
        Ok(Played { seconds: began.elapsed().as_secs_f64(), ..sink.played })
    }

    /// Closes the record and, on rank 0, writes results and summary.
    ///
    /// # Errors
    /// A record of another process that has games of another run, or files that cannot be written.
    pub fn finish(mut self, run: &RunStats) -> Result<Finished> {
        if self.job.rank != 0 {
            return Ok(Finished::ByRankZero);
        }
        let gate = FileLock::wait(self.job.files.lock())?;
        self.read_other_ranks()?;
        let missing = self.record.missing().len();
        let Self { job, record, stats, queue } = self;
        let results = job.files.results();
        write_json_atomically(&results, &record.into_episodes())?;
        write_json_atomically(job.files.summary(), &SummaryFile { missing, games: &stats, this_run: run })?;
        if missing == 0 {
            // All games that failed have been played since.
            for path in job.files.failed()? {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(spag_io::Error::io(&path)(error).into());
                    }
                    _ => {}
                }
            }
        }
        // A rank that starts late needs it before it joins.
        drop(gate);
        // Waits until the other ranks know that all games are finished.
        let lost = queue.map(Queue::close).unwrap_or_default();
        Ok(Finished::Written { results, stats: Box::new(stats), missing, lost })
    }
}

/// Writes ended games to disk, adds them to the statistics and notifies the observer.
struct Recorder<'a> {
    record: &'a mut GameRecord,
    stats: &'a mut GameStats,
    observer: &'a mut dyn JobObserver,
    queue: Option<&'a Queue>,
    /// Lost ranks that the observer knows.
    lost: usize,
    played: Played,
}

impl Recorder<'_> {
    fn notify(&mut self) {
        let Played { finished, failed, .. } = self.played;
        self.observer.game_ended(SoFar { stats: self.stats, finished, failed });
    }
}

impl GameSink for Recorder<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.stats.add(&game.episode)?;
        self.record.add(game)?;
        self.played.finished += 1;
        self.notify();
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.record.add_failed(game)?;
        self.played.failed += 1;
        self.notify();
        Ok(())
    }

    fn should_continue(&mut self) -> bool {
        for lost in self.queue.map(Queue::lost).iter().flatten().skip(self.lost) {
            self.observer.rank_lost(lost);
            self.lost += 1;
        }
        self.played.stopped |= !self.observer.should_continue();
        !self.played.stopped
    }
}
