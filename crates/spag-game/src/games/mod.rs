//! The games of this crate, one folder each, and what they share.

mod best_actions;
pub mod connect_four;
mod data;
pub mod dont_say_it;
pub mod kuhn_poker;
pub mod liars_dice;
mod message;
mod native;
pub mod nim;
mod open;
mod options;
mod patterns;
mod perfect_play;
mod python_random;
mod registry;
mod shared;
pub mod simple_negotiation;
mod table;
pub mod taboo;
pub mod textarena;
pub mod tic_tac_toe;
pub mod truth_and_deception;
pub mod unknown;

pub use open::{NamedGame, game_labels, open_game, parse_options};

use crate::seat::Seat;
use crate::verdict::Ending;

pub use best_actions::BestActions;
pub use data::{DataKind, FactPair, GameData};
pub use message::{Message, MessageKind, Sender};
pub use native::SeededGame;
pub use perfect_play::PerfectPlay;
pub use registry::{by_name, data_kind, labels};
pub use shared::{DRAW, INVALID};

/// The seat of this name in one of the games, or in a game that has no names for its seats.
pub(crate) fn seat(name: &str) -> Option<Seat> {
    let known = labels().flat_map(|labels| labels.seats).chain([Seat::FIRST, Seat::SECOND]);
    known.into_iter().find(|seat| seat.name() == name)
}

/// The ending of this name in one of the games, with its place in the order of reports. Endings of several games are last.
pub(crate) fn ending(name: &str) -> Option<(usize, Ending)> {
    let own = labels().flat_map(|labels| labels.endings).filter(|ending| !shared::ENDINGS.contains(ending));
    let all = own.chain([&textarena::WON]).chain(&shared::ENDINGS).enumerate();
    all.map(|(place, ending)| (place, *ending)).find(|(_, ending)| ending.name == name)
}
