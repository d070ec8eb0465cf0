//! A job with its record open: knows and plays the missing games.

use std::cell::Cell;
use std::time::Instant;

use sha2::{Digest, Sha256};
use spag_dist::queue::{Assignment, Queue};
use spag_game::{Game, GameRecord, GameSpec, PlayConfig, Seats, play_games};
use spag_io::{FileLock, hex};

use super::recorder::Recorder;
use super::{JobFiles, JobObserver, PlayJob, Played, PlayerWork, Ranks, RunStats};
use crate::error::Result;
use crate::game_stats::GameStats;
use crate::players::PlayerPair;
use crate::shared_games::play_shared;

/// A [`PlayJob`] whose record this process has locked.
#[derive(Debug)]
pub struct OpenJob<'g> {
    game: &'g dyn Game,
    pub(super) files: JobFiles,
    pub(super) ranks: Ranks,
    pub(super) record: GameRecord,
    pub(super) stats: GameStats,
    /// Hands out the games to the ranks of a launcher.
    pub(super) queue: Option<Queue>,
    /// What all ranks must agree on.
    task: String,
    config: PlayConfig,
    /// The games of this process; `None` before it plays.
    played: Option<Played>,
    players: Vec<(&'static str, PlayerWork)>,
}

impl<'g> PlayJob<'g> {
    /// Opens the record of this process, reads the games that it and others have played, and joins the other ranks. All
    /// ranks open the job before they load models, which may take longer than the join timeout.
    ///
    /// # Errors
    /// A file that cannot be read or written, that another process writes to, or that has games of another run; rank 0
    /// cannot be reached, or a rank has another job.
    pub fn open(self) -> Result<OpenJob<'g>> {
        let Self { game, games, players, play, files, ranks } = self;
        let task = describe(&games, &players);
        // `is_taken` locks a file for a moment, so no other process may call it while this one locks its record.
        let gate = files.lock().map(FileLock::wait).transpose()?;
        if gate.is_some() {
            for (rank, path) in files.records()? {
                if rank >= ranks.world_size() && FileLock::is_taken(&path)? {
                    // A run with more processes is active and would play the same games.
                    return Err(spag_io::Error::InUse { path, holder: None }.into());
                }
            }
        }
        let record = GameRecord::open(files.record(ranks.rank()), game, games, players)?;
        drop(gate);
        let mut stats = GameStats::new(game.labels());
        record.games().for_each(|(episode, verdict)| stats.add(episode, verdict));
        let mut open = OpenJob {
            game,
            files,
            ranks,
            record,
            stats,
            queue: None,
            task,
            config: play,
            played: None,
            players: Vec::new(),
        };
        open.read_other_ranks()?;
        open.queue = open.ranks.join(&open.task, open.total())?;
        Ok(open)
    }
}

impl OpenJob<'_> {
    /// Reads the records of all other ranks.
    pub(super) fn read_other_ranks(&mut self) -> Result<()> {
        let own = self.ranks.rank();
        for (_, path) in self.files.records()?.into_iter().filter(|(rank, _)| *rank != own) {
            for game in self.record.merge_file(&path, self.game)? {
                self.record.game(game).into_iter().for_each(|(episode, verdict)| self.stats.add(episode, verdict));
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
        self.record.games().len()
    }

    /// Games of the run that are missing as far as this process knows, in order.
    pub fn missing(&self) -> Vec<GameSpec> {
        self.record.missing()
    }

    /// Statistics of the finished games.
    pub fn stats(&self) -> &GameStats {
        &self.stats
    }

    /// The work of this process since the job was opened. The work of the players is that since they were loaded.
    pub fn run_stats(&self) -> RunStats {
        RunStats {
            rank: self.ranks.rank(),
            world_size: self.ranks.world_size(),
            played: self.played.unwrap_or_default(),
            players: self.players.clone(),
        }
    }

    /// Plays the missing games, `games_in_flight` at a time: all of them, or the share of this process. Returns when all
    /// processes have finished all games, or when the observer stops it. All ranks of a group call it, or none.
    ///
    /// # Errors
    /// As [`play_games`], or a rank is lost. All games that were finished before are on disk.
    pub fn play(&mut self, seats: Seats<'_>, games_in_flight: usize, observer: &mut dyn JobObserver) -> Result<Played> {
        self.play_metered(seats, games_in_flight, &Cell::new(0), observer)
    }

    /// As [`OpenJob::play`], with as many games at a time as the players can play. Their work is in
    /// [`OpenJob::run_stats`].
    ///
    /// # Errors
    /// As [`OpenJob::play`].
    pub fn play_pair(&mut self, pair: &mut PlayerPair, observer: &mut dyn JobObserver) -> Result<Played> {
        let (games, new_tokens) = (pair.games_at_a_time(), Cell::new(0));
        let played = pair.seated(&new_tokens, |seats| self.play_metered(seats, games, &new_tokens, observer))?;
        self.players = pair.work(self.game.labels());
        Ok(played)
    }

    fn play_metered(
        &mut self,
        seats: Seats<'_>,
        games_in_flight: usize,
        new_tokens: &Cell<u64>,
        observer: &mut dyn JobObserver,
    ) -> Result<Played> {
        let beside = self.ranks.join_beside(&self.task, self.total())?;
        let queue = beside.as_ref().or(self.queue.as_ref());
        let missing = self.record.missing();
        let config = PlayConfig { games_in_flight, ..self.config };
        let (record, stats, played) = (&mut self.record, &mut self.stats, self.played.unwrap_or_default());
        let mut sink = Recorder { record, stats, observer, queue, lost: 0, played, new_tokens };
        let began = Instant::now();
        match queue {
            Some(queue) => play_shared(queue, self.game, missing, seats, &config, &mut sink)?,
            None => play_games(self.game, missing, seats, &config, &mut sink)?,
        }
        let played = Played { seconds: played.seconds + began.elapsed().as_secs_f64(), ..sink.played };
        self.played = Some(played);
        drop(beside);
        if !played.stopped {
            // Rank 0 then finds the games of all ranks.
            self.ranks.barrier()?;
        }
        Ok(played)
    }

    /// Tells the other processes that all games are finished, if this one has found no missing game, and waits until all
    /// processes know it.
    pub(super) fn report_all_finished(&self) -> Result<()> {
        let is_told = self.played.is_some() || self.recorded() < self.total();
        let Some(queue) = self.queue.as_ref().filter(|_| !is_told) else { return Ok(()) };
        while let Assignment::Items(games) = queue.next(self.total())? {
            queue.done(&games)?;
        }
        Ok(())
    }
}

/// The games and players, for a comparison between the ranks.
fn describe(games: &[GameSpec], players: &str) -> String {
    let mut hash = Sha256::new();
    for game in games {
        hash.update(game.seed.to_le_bytes());
        hash.update(game.item.as_bytes());
        hash.update([0]);
    }
    let max_turns = games.first().map_or(0, |game| game.max_turns);
    format!("{players}; max_turns={max_turns}; words and seeds {}", hex(&hash.finalize()[..8]))
}
