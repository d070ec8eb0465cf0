//! What `spag-play` needs beyond the game driver: games that outlive a kill, and how they go.

mod recording;
mod tally;

pub(crate) use recording::Recording;
pub(crate) use tally::Tally;
