//! The games of this crate, one folder each, and what they share.

mod best_actions;
pub mod connect_four;
mod data;
mod declare;
pub mod dont_say_it;
pub mod kuhn_poker;
pub mod liars_dice;
mod native;
pub mod nim;
mod open;
mod options;
mod patterns;
mod perfect_play;
mod python_random;
mod registry;
pub mod simple_negotiation;
mod table;
pub mod taboo;
pub mod textarena;
pub mod tic_tac_toe;
pub mod truth_and_deception;
pub mod unknown;

pub use best_actions::BestActions;
pub use data::{DataKind, FactPair, GameData};
pub use native::SeededGame;
pub use open::{NamedGame, game_labels, open_game, parse_options};
pub use perfect_play::PerfectPlay;
pub use registry::{by_name, data_kind, labels};
