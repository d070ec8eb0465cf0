//! The games of this crate, one folder each.

pub mod taboo;

use crate::labels::Labels;

/// The labels of all games.
pub(crate) static LABELS: &[&Labels] = &[&taboo::LABELS];

/// The names of seats that files may have, for an error message.
pub(crate) const SEAT_NAMES: &[&str] = &[taboo::ATTACKER.name(), taboo::DEFENDER.name()];
