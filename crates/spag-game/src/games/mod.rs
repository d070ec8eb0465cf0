//! The games of this crate, one folder each.

mod open;
pub mod taboo;

pub use open::{game_labels, open_game};

use crate::labels::Labels;
use crate::seat::Seat;
use crate::verdict::Ending;

/// The labels of all games.
pub(crate) static LABELS: &[&Labels] = &[&taboo::LABELS];

/// The seat of this name in one of the games, or in a game that has no names for its seats.
pub(crate) fn seat(name: &str) -> Option<Seat> {
    let known = LABELS.iter().flat_map(|labels| labels.seats).chain([Seat::FIRST, Seat::SECOND]);
    known.into_iter().find(|seat| seat.name() == name)
}

/// The ending of this name in one of the games, with its place in the order of reports.
pub(crate) fn ending(name: &str) -> Option<(usize, Ending)> {
    let all = LABELS.iter().flat_map(|labels| labels.endings).enumerate();
    all.map(|(place, ending)| (place, *ending)).find(|(_, ending)| ending.name == name)
}

/// The names of seats that files may have, for an error message.
pub(crate) const SEAT_NAMES: &[&str] = &[taboo::ATTACKER.name(), taboo::DEFENDER.name()];
