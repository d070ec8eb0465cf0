//! Games as they end: into the record, into the tally, onto the bar.

use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink};
use spag_train::Progress;

use super::Tally;

/// Keeps every game and shows how they go.
pub(crate) struct Recording<'a> {
    record: &'a mut GameRecord,
    tally: &'a mut Tally,
    progress: &'a mut dyn Progress,
    ended: u64,
    failed: usize,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(record: &'a mut GameRecord, tally: &'a mut Tally, progress: &'a mut dyn Progress) -> Self {
        Self { record, tally, progress, ended: 0, failed: 0 }
    }

    /// Games that could not be played to their end.
    pub(crate) fn failed(&self) -> usize {
        self.failed
    }

    fn advance(&mut self) {
        self.ended += 1;
        let note = match self.failed {
            0 => self.tally.short(),
            failed => format!("{}, failed {failed}", self.tally.short()),
        };
        self.progress.advance(self.ended, &note);
    }
}

impl GameSink for Recording<'_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.tally.add(&game.verdict);
        self.record.add(game)?;
        self.advance();
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.failed += 1;
        self.record.add_failed(game)?;
        self.advance();
        Ok(())
    }
}
