//! Players of either kind, and the two of a run.

mod any_player;
mod pair;

pub use any_player::AnyPlayer;
pub use pair::PlayerPair;
