//! Records the games of a pairing and shows the progress of the arena.

use spag_game::{FailedGame, FinishedGame, GameRecord, GameSink, Role};
use spag_io::Progress;
use spag_selfplay::{Ending, GameCounts};

/// The progress of the arena.
pub(super) struct Bar<'a> {
    pub(super) progress: &'a mut dyn Progress,
    /// Games played in all pairings.
    pub(super) done: usize,
}

/// Receives the games of one pairing.
pub(super) struct ArenaSink<'a, 'b> {
    record: &'a mut GameRecord,
    bar: &'a mut Bar<'b>,
    /// The name of the pairing.
    name: String,
    counts: GameCounts,
}

impl<'a, 'b> ArenaSink<'a, 'b> {
    pub(super) fn new(record: &'a mut GameRecord, bar: &'a mut Bar<'b>, name: String) -> Self {
        Self { record, bar, name, counts: GameCounts::default() }
    }

    fn advance(&mut self) {
        let counts = &self.counts;
        let failed = if counts.failed > 0 { format!(", failed {}", counts.failed) } else { String::new() };
        let (attacker, defender) = (counts.wins(Role::Attacker), counts.wins(Role::Defender));
        let ties = counts.ended(Ending::Tie);
        let note = format!("{}: attacker {attacker}, defender {defender}, tied {ties}{failed}", self.name);
        self.bar.done += 1;
        self.bar.progress.advance(self.bar.done as u64, &note);
    }
}

impl GameSink for ArenaSink<'_, '_> {
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
