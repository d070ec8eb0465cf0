//! Tic-tac-toe.

mod perfect;

use serde_json::{Map, Value};

use super::declare::{ending, labels};
use super::native::{Native, Position, object};
use super::patterns::{Natural, after_bracket};
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::{DRAW, INVALID};
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;

pub(super) use perfect::best_actions;
pub use perfect::perfect_play;

ending!(
    /// A player has three in a line.
    LINE, "line", "three in a line", "a player has three marks in a line and wins"
);
labels!("tic-tac-toe", "Tic-Tac-Toe", Moves, [LINE, DRAW, INVALID]);

/// The marks of the players.
const MARKS: [u8; 2] = [b'O', b'X'];
const EMPTY: u8 = b'.';
/// All lines of three cells.
const LINES: [[usize; 3]; 8] = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

/// Tic-tac-toe has no options of its own.
#[derive(Debug)]
pub(crate) struct TicTacToe;

impl Native for TicTacToe {
    type Position = Board;

    const LABELS: &'static Labels = &LABELS;

    fn deal(&self, _: &str, _: PythonRandom) -> Result<Board> {
        Ok(Board([EMPTY; 9]))
    }
}

/// The cells by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Board([u8; 9]);

impl Board {
    fn has_line(&self, mark: u8) -> bool {
        LINES.iter().any(|line| line.iter().all(|cell| self.0[*cell] == mark))
    }

    fn free(&self) -> impl Iterator<Item = usize> {
        (0..9).filter(|cell| self.0[*cell] == EMPTY)
    }

    fn show(&self, table: &mut Table) {
        let mut text = String::from("Board:\n");
        for (cell, mark) in self.0.iter().enumerate() {
            text.push(if *mark == EMPTY { (b'0' + cell as u8) as char } else { *mark as char });
            text.push(if cell % 3 == 2 { '\n' } else { ' ' });
        }
        text.push_str("Free cells:");
        for cell in self.free() {
            text.push(' ');
            text.push((b'0' + cell as u8) as char);
        }
        table.tell(MessageKind::Board, text);
    }
}

impl Position for Board {
    fn prompt(&self, player: usize) -> String {
        format!(
            "This is tic-tac-toe, and you are player {player}. You place {}, the other player places {}.\n\
             The cells are numbered by rows: 0 1 2 above, 3 4 5 in the middle, 6 7 8 below. Player 0 begins.\n\
             Whoever has three marks in a row, column or diagonal wins. A full board without a line is a draw.\n\
             To place a mark, write the number of a free cell in brackets, for example [4].",
            MARKS[player] as char,
            MARKS[1 - player] as char,
        )
    }

    fn begin(&mut self, table: &mut Table) {
        self.show(table);
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        match cell(action).map(|cell| cell.index_below(9).filter(|cell| self.0[*cell] == EMPTY)) {
            None => table.refuse(Refusal::Format, "it has no number of a cell in brackets."),
            Some(None) => table.refuse(Refusal::Illegal, "there is no such cell, or it is taken."),
            Some(Some(cell)) => {
                self.0[cell] = MARKS[player];
                let mark = MARKS[player] as char;
                table.tell(MessageKind::Description, format!("Player {player} places {mark} in cell {cell}."));
                if self.has_line(MARKS[player]) {
                    table.win(player, LINE);
                } else if self.free().next().is_none() {
                    table.tie(DRAW);
                }
            }
        }
        self.show(table);
    }

    fn public(&self, _: &Table) -> Map<String, Value> {
        object([("board", self.0.iter().map(|mark| *mark as char).collect::<String>().into())])
    }

    fn legal_actions(&self) -> Option<Vec<String>> {
        Some(self.free().map(action).collect())
    }
}

/// The action that marks a cell.
fn action(cell: usize) -> String {
    format!("[{cell}]")
}

/// `\[\s*(\d+)\s*\]`
fn cell(action: &str) -> Option<Natural> {
    after_bracket(action, |mut at| {
        at.spaces();
        let cell = at.number()?;
        at.spaces();
        at.text("]")?;
        Some(cell)
    })
}
