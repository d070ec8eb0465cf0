//! Perfect play of Connect Four on small boards.

use serde_json::{Map, Value};

use super::{Board, DISCS, EMPTY, action};
use crate::games::perfect_play::{PerfectPlay, Solvable, Values, count};
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
    is_small(rows, cols).then(|| count(Solving::of(Board { rows: vec![vec![EMPTY; cols]; rows] }), columns))?
}

/// The actions that keep the value of a public state. `None` if its board is too large.
pub(in crate::games) fn best_actions(state: &Map<String, Value>, values: &mut Values<Solving>) -> Option<Vec<String>> {
    let row = |row: &Value| Some(row.as_str()?.as_bytes().to_vec());
    let rows: Vec<Vec<u8>> = state.get("board")?.as_array()?.iter().map(row).collect::<Option<_>>()?;
    let cols = rows.first()?.len();
    let is_board = is_small(rows.len(), cols) && rows.iter().all(|row| row.len() == cols);
    is_board.then(|| values.best_moves(&Solving::of(Board { rows })).into_iter().map(action).collect())
}

fn is_small(rows: usize, cols: usize) -> bool {
    rows.checked_mul(cols).is_some_and(|cells| (1..=MAX_CELLS).contains(&cells))
}

/// A board, and whether its last disc, which alone can have done so, made a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::games) struct Solving {
    board: Board,
    has_line: bool,
}

impl Solving {
    fn of(board: Board) -> Self {
        let has_line = (0..board.rows.len())
            .any(|row| (0..board.cols()).any(|col| board.rows[row][col] != EMPTY && board.has_four(row, col)));
        Self { board, has_line }
    }
}

impl Solvable for Solving {
    type Move = usize;

    fn result(&self) -> Option<i8> {
        match self.has_line {
            true => Some(-1),
            false => self.board.is_full().then_some(0),
        }
    }

    fn moves(&self) -> Vec<usize> {
        self.board.open_columns().collect()
    }

    fn after(&self, col: usize) -> Self {
        let mut board = self.board.clone();
        let discs = board.rows.iter().flatten().filter(|disc| **disc != EMPTY).count();
        let row = board.drop(col, DISCS[discs % SEATS]);
        Self { has_line: row.is_some_and(|row| board.has_four(row, col)), board }
    }
}
