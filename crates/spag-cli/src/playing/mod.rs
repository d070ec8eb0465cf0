//! What `spag-play` needs beyond the game driver: checkpoints as players, and games that outlive a kill.

mod model_player;
mod record;
mod tally;

pub(crate) use model_player::ModelPlayer;
pub(crate) use record::GameRecord;
pub(crate) use tally::Tally;
