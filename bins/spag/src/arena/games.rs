//! The games of a pairing as they end: into its record, and onto the bar of the whole arena.

use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink, Role};
use spag_io::Progress;
use spag_selfplay::{Ending, GameCounts};

/// How far the arena is.
pub(super) struct Bar<'a> {
    progress: &'a mut dyn Progress,
    ended: usize,
}

impl<'a> Bar<'a> {
    /// Goes on where `ended` games were played before.
    pub(super) fn new(progress: &'a mut dyn Progress, ended: usize) -> Self {
        Self { progress, ended }
    }

    fn advance(&mut self, note: &str) {
        self.ended += 1;
        self.progress.advance(self.ended as u64, note);
    }
}

/// Keeps the games of one pairing.
pub(super) struct Keep<'a, 'b> {
    record: &'a mut GameRecord,
    bar: &'a mut Bar<'b>,
    name: String,
    counts: GameCounts,
}

impl<'a, 'b> Keep<'a, 'b> {
    /// Keeps games in `record`; `name` is what the bar calls the pairing.
    pub(super) fn new(record: &'a mut GameRecord, bar: &'a mut Bar<'b>, name: String) -> Self {
        Self { record, bar, name, counts: GameCounts::default() }
    }

    fn advance(&mut self) {
        let counts = &self.counts;
        let failed = if counts.failed > 0 { format!(", failed {}", counts.failed) } else { String::new() };
        let (attacker, defender) = (counts.wins(Role::Attacker), counts.wins(Role::Defender));
        let ties = counts.ended(Ending::Tie);
        self.bar.advance(&format!("{}: attacker {attacker}, defender {defender}, tied {ties}{failed}", self.name));
    }
}

impl GameSink for Keep<'_, '_> {
    fn finished(&mut self, game: FinishedGame) -> spag_game::Result<()> {
        self.counts.add(Ending::of(&game.verdict, &game.episode), game.verdict.history_length);
        self.record.add(game)?;
        self.advance();
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> spag_game::Result<()> {
        self.counts.failed += 1;
        self.record.add_failed(game)?;
        self.advance();
        Ok(())
    }
}
