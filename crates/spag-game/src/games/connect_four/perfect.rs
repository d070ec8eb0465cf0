//! Perfect play of Connect Four on small boards.

use super::{Board, DISCS, EMPTY};
use crate::games::perfect_play::{PerfectPlay, Solvable, count};
use crate::seat::SEATS;

/// The most cells of a board that is solved: all positions are kept, some 10^5 of four by four.
const MAX_CELLS: usize = 16;

/// How many moves of each player keep the value of their position, in a game with these columns. `None` if one is illegal, or
/// the board has more than 16 cells or less than one.
///
/// ```
/// use spag_game::games::connect_four;
/// // Whoever lets three in a column stand loses.
/// let [_, second] = connect_four::perfect_play(4, 4, &[0, 1, 0, 1, 0, 2]).unwrap();
/// assert_eq!((second.kept, second.moves), (2, 3));
/// ```
pub fn perfect_play(rows: usize, cols: usize, columns: &[usize]) -> Option<[PerfectPlay; SEATS]> {
    let is_small = rows.checked_mul(cols).is_some_and(|cells| (1..=MAX_CELLS).contains(&cells));
    is_small.then(|| count(Solving { board: Board { rows: vec![vec![EMPTY; cols]; rows] }, last: None }, columns))?
}

/// A board with the last disc, which alone can have made a line.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Solving {
    board: Board,
    last: Option<(usize, usize)>,
}

impl Solvable for Solving {
    type Move = usize;

    fn result(&self) -> Option<i8> {
        match self.last.is_some_and(|(row, col)| self.board.has_four(row, col)) {
            true => Some(-1),
            false => self.board.is_full().then_some(0),
        }
    }

    fn moves(&self) -> Vec<usize> {
        (0..self.board.cols()).filter(|col| self.board.rows[0][*col] == EMPTY).collect()
    }

    fn after(&self, col: usize) -> Self {
        let mut board = self.board.clone();
        let discs = board.rows.iter().flatten().filter(|disc| **disc != EMPTY).count();
        let row = board.drop(col, DISCS[discs % SEATS]);
        Self { board, last: row.map(|row| (row, col)) }
    }
}
