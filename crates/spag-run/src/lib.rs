//! The files of a run that other programs read: what its outputs were made from, and what its ranks do now.

mod provenance;
mod status;

pub use provenance::{PlayedGames, Provenance};
pub use status::{RankState, RankStatus};
