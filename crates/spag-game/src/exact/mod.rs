//! Exact measures of play: how much a perfect opponent wins, and which moves keep what a position is worth.

mod boards;
mod kuhn;

pub use boards::{BestMoves, ConnectFour, Nim, Position, TicTacToe, best_moves};
pub use kuhn::{KuhnNode, KuhnPolicy, KuhnStakes};
