//! The progress of an arena.

use spag_io::Progress;
use spag_selfplay::{JobObserver, SoFar};

/// The progress of the arena.
pub(super) struct Bar<'a> {
    pub(super) progress: &'a mut dyn Progress,
    /// Games played in all pairings.
    pub(super) done: usize,
}

/// The progress of one pairing.
pub(super) struct PairingBar<'a, 'b> {
    pub(super) bar: &'a mut Bar<'b>,
    /// The name of the pairing.
    pub(super) name: String,
}

impl JobObserver for PairingBar<'_, '_> {
    fn game_ended(&mut self, so_far: SoFar<'_>) {
        let counts = so_far.stats.counts();
        let failed = if so_far.failed > 0 { format!(", failed {}", so_far.failed) } else { String::new() };
        let won = counts.labels().seats.map(|seat| format!("{seat} {}", counts.wins(seat)));
        let note = format!("{}: {}, tied {}{failed}", self.name, won.join(", "), counts.ties());
        self.bar.done += 1;
        self.bar.progress.advance(self.bar.done as u64, &note);
    }
}
