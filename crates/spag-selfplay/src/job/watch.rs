//! Whoever looks on while games are played.

use crate::summary::GamesTally;

/// How far a process is.
#[derive(Clone, Copy, Debug)]
pub struct SoFar<'a> {
    /// All games known, also those of before and those of others.
    pub tally: &'a GamesTally,
    /// Games that this process has played to their end since it began.
    pub finished: u64,
    /// Games that failed since then.
    pub failed: u64,
}

/// Looks on while games are played, and may end it.
pub trait JobWatcher {
    /// A game has ended, and is on the disk.
    fn game_ended(&mut self, so_far: SoFar<'_>);

    /// Whether to go on; asked about ten times a second or more often. After a no, games that are under way are
    /// dropped: the next run plays them from their beginning.
    fn goes_on(&mut self) -> bool {
        true
    }
}
