//! A job with its record open: what is there, what is missing, and the playing of it.

use std::time::Instant;

use sha2::{Digest, Sha256};
use spag_dist::queue::{Queue, Turn};
use spag_dist::{JoinOptions, LaunchEnv};
use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink, GameSpec, PlayConfig, PromptSet, Seats, play_games};
use spag_io::FileLock;

use super::{JobWatcher, PlayJob, Played, SoFar};
use crate::error::Result;
use crate::shared_games::play_shared;
use crate::summary::{GamesSummary, GamesTally};

/// A [`PlayJob`] whose record this process holds.
#[derive(Debug)]
pub struct OpenJob {
    pub(super) job: PlayJob,
    pub(super) record: GameRecord,
    pub(super) tally: GamesTally,
    /// Where games are handed out, once the processes have met.
    queue: Option<Queue>,
}

impl OpenJob {
    pub(super) fn open(job: PlayJob) -> Result<Self> {
        let specs = job.specs();
        // Nobody may take this process's lock for a moment, to see whether it is at work, while it takes it itself.
        let gate = FileLock::wait(job.files.lock())?;
        for (rank, path) in job.files.records()? {
            if rank >= job.rank.of() && FileLock::is_taken(&path)? {
                // A run of more processes is still going on; it would play what this one plays.
                return Err(spag_io::Error::InUse { path, holder: None }.into());
            }
        }
        let record = GameRecord::open(job.files.record(job.rank.number()), specs, job.players.clone())?;
        drop(gate);
        let mut tally = GamesTally::new(job.play.judge);
        record.episodes().try_for_each(|episode| tally.add(episode))?;
        let mut open = Self { job, record, tally, queue: None };
        open.take_in_others()?;
        Ok(open)
    }

    /// Reads the records of all other ranks.
    pub(super) fn take_in_others(&mut self) -> Result<()> {
        let own = self.job.rank.number();
        for (_, path) in self.job.files.records()?.into_iter().filter(|(rank, _)| *rank != own) {
            for game in self.record.merge_file(&path)? {
                self.record.episode(game).map_or(Ok(()), |episode| self.tally.add(episode))?;
            }
        }
        Ok(())
    }

    /// What it is about.
    pub fn job(&self) -> &PlayJob {
        &self.job
    }

    /// Games of the whole run.
    pub fn total(&self) -> usize {
        self.record.total()
    }

    /// Games of the whole run that are known to be played.
    pub fn recorded(&self) -> usize {
        self.record.episodes().len()
    }

    /// Games of the whole run that are still to be played, in order, as far as this process knows.
    pub fn missing(&self) -> Vec<GameSpec> {
        self.record.missing()
    }

    /// Meets the other processes of the run, where there are some: rank 0 lets them in, the others wait for it. To be
    /// called by all of them, before anything that takes long.
    ///
    /// # Errors
    /// Rank 0 that is not reached, or one that plays something else.
    pub fn meet(&mut self, env: &LaunchEnv, options: &JoinOptions) -> Result<()> {
        let specs = self.job.specs();
        let mut hash = Sha256::new();
        for spec in &specs {
            hash.update(spec.seed.to_le_bytes());
            hash.update(spec.target_word.as_bytes());
            hash.update([0]);
        }
        let words: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let task = format!("{}; max_turns={}; words and seeds {words}", self.job.players, self.job.max_turns);
        self.queue = Some(Queue::open(env, options, &task, specs.len())?);
        Ok(())
    }

    /// For a process that knows of no game that is missing: tells the others, and comes back when all know it.
    ///
    /// # Errors
    /// Rank 0 that is lost.
    pub fn nothing_is_missing(&self) -> Result<()> {
        let Some(queue) = &self.queue else { return Ok(()) };
        while let Turn::Items(games) = queue.next(self.total())? {
            queue.done(&games)?;
        }
        Ok(())
    }

    /// What the games say that are known so far.
    pub fn summary(&self) -> GamesSummary {
        self.tally.summary()
    }

    /// Where failed games go, once there are some.
    pub fn failed_path(&self) -> &std::path::Path {
        self.record.failed_path()
    }

    /// Plays what is missing, `games_in_flight` at a time: all of it, or what this process is given of it. Comes back when
    /// all processes have played everything, or its watcher wants no more.
    ///
    /// # Errors
    /// As [`play_games`], or rank 0 that is lost; every game that was finished before is on the disk.
    pub fn play(
        &mut self,
        seats: Seats<'_>,
        prompts: &PromptSet,
        games_in_flight: usize,
        watcher: &mut dyn JobWatcher,
    ) -> Result<Played> {
        let missing = self.missing();
        let config = PlayConfig { games_in_flight, ..self.job.play };
        let (record, tally) = (&mut self.record, &mut self.tally);
        let mut sink = Recorder { record, tally, watcher, played: Played::default() };
        let began = Instant::now();
        match &self.queue {
            Some(queue) => play_shared(queue, missing, seats, prompts, &config, &mut sink)?,
            None => play_games(missing, seats, prompts, &config, &mut sink)?,
        }
        Ok(Played { seconds: began.elapsed().as_secs_f64(), ..sink.played })
    }
}

/// Games as they end: onto the disk, into the tally, before the watcher's eyes.
struct Recorder<'a> {
    record: &'a mut GameRecord,
    tally: &'a mut GamesTally,
    watcher: &'a mut dyn JobWatcher,
    played: Played,
}

impl Recorder<'_> {
    fn tell(&mut self) {
        let Played { finished, failed, .. } = self.played;
        self.watcher.game_ended(SoFar { tally: self.tally, finished, failed });
    }
}

impl GameSink for Recorder<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.tally.add(&game.episode)?;
        self.record.add(game)?;
        self.played.finished += 1;
        self.tell();
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.record.add_failed(game)?;
        self.played.failed += 1;
        self.tell();
        Ok(())
    }

    fn should_continue(&mut self) -> bool {
        self.played.stopped |= !self.watcher.goes_on();
        !self.played.stopped
    }
}
