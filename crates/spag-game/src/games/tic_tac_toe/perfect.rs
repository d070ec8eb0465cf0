//! Perfect play of tic-tac-toe.

use serde_json::{Map, Value};

use super::{Board, EMPTY, MARKS, action};
use crate::games::perfect_play::{PerfectPlay, Solvable, Values, count};
use crate::seat::SEATS;

/// How many moves of each player keep the value of their position, in a game with these cells. `None` if one is illegal.
///
/// ```
/// use spag_game::games::tic_tac_toe;
/// // Only the centre draws against a corner.
/// let [first, second] = tic_tac_toe::perfect_play(&[0, 1]).unwrap();
/// assert_eq!((first.share(), second.share()), (Some(1.0), Some(0.0)));
/// ```
pub fn perfect_play(cells: &[usize]) -> Option<[PerfectPlay; SEATS]> {
    count(Board([EMPTY; 9]), cells)
}

/// The actions that keep the value of a public state.
pub(in crate::games) fn best_actions(state: &Map<String, Value>, values: &mut Values<Board>) -> Option<Vec<String>> {
    let board = Board(state.get("board")?.as_str()?.as_bytes().try_into().ok()?);
    Some(values.best_moves(&board).into_iter().map(action).collect())
}

impl Solvable for Board {
    type Move = usize;

    fn result(&self) -> Option<i8> {
        // Only the player that has just moved can have made a line.
        match MARKS.iter().any(|mark| self.has_line(*mark)) {
            true => Some(-1),
            false => self.free().next().is_none().then_some(0),
        }
    }

    fn moves(&self) -> Vec<usize> {
        self.free().collect()
    }

    fn after(&self, cell: usize) -> Self {
        let mut after = *self;
        after.0[cell] = MARKS[(9 - self.free().count()) % SEATS];
        after
    }
}
