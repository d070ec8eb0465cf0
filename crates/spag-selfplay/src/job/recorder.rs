//! What happens to a game that has ended: it is written, counted and shown.

use std::cell::Cell;

use spag_dist::queue::Queue;
use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink};

use super::Played;
use crate::game_stats::GameStats;

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
    /// All known games, including those of earlier runs and, from the time of opening, those of other processes.
    pub stats: &'a GameStats,
    /// Games that this process has finished since its start.
    pub finished: u64,
    /// Games that failed since its start.
    pub failed: u64,
    /// Tokens that the players have generated in this job; 0 for scripted players.
    pub new_tokens: u64,
}

/// Writes ended games to disk, adds them to the statistics and notifies the observer.
pub(super) struct Recorder<'a> {
    pub(super) record: &'a mut GameRecord,
    pub(super) stats: &'a mut GameStats,
    pub(super) observer: &'a mut dyn JobObserver,
    pub(super) queue: Option<&'a Queue>,
    /// Lost ranks that the observer knows.
    pub(super) lost: usize,
    pub(super) played: Played,
    pub(super) new_tokens: &'a Cell<u64>,
}

impl Recorder<'_> {
    fn notify(&mut self) {
        let Played { finished, failed, .. } = self.played;
        self.observer.game_ended(SoFar { stats: self.stats, finished, failed, new_tokens: self.new_tokens.get() });
    }
}

impl GameSink for Recorder<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.stats.add(&game.episode, &game.verdict);
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
