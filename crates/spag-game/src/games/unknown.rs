//! The names of a game of which nothing but its records is known.

use super::declare::labels;
use crate::ending::{DRAW, INVALID};

labels!("unknown", "Another game", Moves, [DRAW, INVALID]);
