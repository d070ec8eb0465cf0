//! An arena: several players, every two of them in both seats, and a rating for each.
//!
//! This module computes pairings, file names and results from counts. It does not load checkpoints or play games.
//!
//! ```
//! use spag_selfplay::arena::{EloScale, Seating, fit};
//!
//! // In either seat A wins 75 of 100 games against B.
//! let seatings = [
//!     Seating { players: [0, 1], games: 100.0, points: 75.0 },
//!     Seating { players: [1, 0], games: 100.0, points: 25.0 },
//! ];
//! let ratings = fit(2, &seatings).ratings(EloScale::Mean);
//! let apart = ratings[0].points - ratings[1].points;
//! // 400·log10(3) is 190.8; the virtual games draw it slightly towards 0.
//! assert!(apart > 185.0 && apart < 190.8);
//! ```

mod elo;
mod pairings;
mod player;
mod render;
mod table;

pub use elo::{Elo, EloScale, Fit, Seating, fit};
pub use pairings::{Pairing, SelfPlay, check_files, pairings, record_file};
pub use player::{NamedPlayer, check_players, player_index};
pub use render::{render_csv, render_json, render_text};
pub use table::{ArenaSettings, ArenaTable, PairingResult, SeatResult, Standing};
