//! The names of a game of which nothing but its records is known.

use super::shared::{DRAW, INVALID, labels};

labels!("unknown", "Another game", Moves, [DRAW, INVALID]);
