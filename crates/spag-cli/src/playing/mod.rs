//! What `spag-play` needs beyond the game driver: games that outlive a kill.

mod record;
mod tally;

pub(crate) use record::GameRecord;
pub(crate) use tally::Tally;
