//! The game whose files are read: its seats and endings are known by the names that it gives them.

use std::cell::Cell;

use crate::games::{self, taboo};
use crate::labels::Labels;
use crate::seat::{SEATS, Seat};
use crate::verdict::Ending;

thread_local! {
    static AT_HAND: Cell<Option<&'static Labels>> = const { Cell::new(None) };
}

/// Puts the labels back that were at hand before.
struct Before(Option<&'static Labels>);

impl Drop for Before {
    fn drop(&mut self) {
        AT_HAND.set(self.0);
    }
}

impl Labels {
    /// Runs `read`, which deserializes records or results of this game: names of seats and endings in them are this game's. Without it
    /// they are those of the games of this crate. It holds for the thread that calls it.
    pub fn reading<T>(&'static self, read: impl FnOnce() -> T) -> T {
        let _before = Before(AT_HAND.replace(Some(self)));
        read()
    }
}

/// The seat of this name in the game at hand, or else in one of this crate, or in a game that has no names for its seats.
pub(crate) fn seat(name: &str) -> Option<Seat> {
    let own = AT_HAND.get().and_then(|labels| labels.seats.into_iter().find(|seat| seat.name() == name));
    own.or_else(|| games::seat(name))
}

/// The names of the seats of the game at hand, or else of Adversarial Taboo, for an error message.
pub(crate) fn seat_names() -> [&'static str; SEATS] {
    AT_HAND.get().unwrap_or(&taboo::LABELS).seats.map(Seat::name)
}

/// The ending of this name in the game at hand, or else in one of this crate, with its place in the order of reports.
pub(crate) fn ending(name: &str) -> Option<(usize, Ending)> {
    let own =
        AT_HAND.get().and_then(|labels| labels.endings.iter().copied().enumerate().find(|(_, one)| one.name == name));
    own.or_else(|| games::ending(name))
}
