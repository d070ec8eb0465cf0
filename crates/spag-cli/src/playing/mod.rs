//! What `spag-play` needs beyond the game driver: games that outlive a kill.

mod tally;

pub(crate) use tally::Tally;
