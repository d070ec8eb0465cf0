//! An arena: several players, every two of them in both seats, and what the games say about how strong each is.
//!
//! Everything here is arithmetic on counts; who loads checkpoints and plays the games is not known.
//!
//! ```
//! use spag_selfplay::arena::{Counts, Elo, EloScale, Pairing, Seating, fit};
//!
//! // In either seat A wins 75 of 100 games against B.
//! let seatings = [
//!     Seating { attacker: 0, defender: 1, games: 100.0, points: 75.0 },
//!     Seating { attacker: 1, defender: 0, games: 100.0, points: 25.0 },
//! ];
//! let ratings = fit(2, &seatings).ratings(EloScale::Mean);
//! let apart = ratings[0].points - ratings[1].points;
//! // 400·log10(3) is 190.8; the virtual games draw it towards 0 a little.
//! assert!(apart > 185.0 && apart < 190.8);
//! # let _ = (Counts::default(), Pairing { attacker: 0, defender: 1 }, Elo { points: 0.0, low: 0.0, high: 0.0 });
//! ```

mod counts;
mod elo;
mod entrant;
mod pairings;
mod render;
mod table;

pub use counts::Counts;
pub use elo::{Elo, EloScale, Fit, Seating, fit};
pub use entrant::{Entrant, check_entrants, position};
pub use pairings::{Pairing, SelfPlay, arena_games, check_files, failed_file, pairings, record_file};
pub use render::{render_csv, render_json, render_text};
pub use table::{ArenaSettings, ArenaTable, Match, SeatResult, Standing};
