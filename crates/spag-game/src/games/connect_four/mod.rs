//! Connect Four.

mod perfect;

use serde_json::{Map, Value};

use super::declare::{ending, labels};
use super::native::{Native, Position, object};
use super::options::Options;
use super::patterns::{Cursor, Natural};
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::{DRAW, INVALID};
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;

pub use perfect::perfect_play;
pub(super) use perfect::{Solving, best_actions};

ending!(
    /// A player has four in a line.
    FOUR, "four", "four in a line", "a player has four discs in a line and wins"
);
labels!("connect-four", "Connect Four", Moves, [FOUR, DRAW, INVALID]);

/// The discs of the players.
const DISCS: [u8; 2] = [b'X', b'O'];
const EMPTY: u8 = b'.';

/// The size of the board.
#[derive(Debug)]
pub(crate) struct ConnectFour {
    rows: usize,
    cols: usize,
}

impl ConnectFour {
    pub(crate) fn new(options: &mut Options<'_>) -> Result<Self> {
        let rows = options.integer("rows", 4..=20, 6)? as usize;
        Ok(Self { rows, cols: options.integer("cols", 4..=20, 7)? as usize })
    }
}

impl Native for ConnectFour {
    type Position = Board;

    const LABELS: &'static Labels = &LABELS;

    fn deal(&self, _: &str, _: PythonRandom) -> Result<Board> {
        Ok(Board { rows: vec![vec![EMPTY; self.cols]; self.rows] })
    }
}

/// The discs by rows from the top.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Board {
    rows: Vec<Vec<u8>>,
}

impl Board {
    fn cols(&self) -> usize {
        self.rows[0].len()
    }

    /// Puts a disc into a column; its row, or `None` if the column is full.
    fn drop(&mut self, col: usize, disc: u8) -> Option<usize> {
        let row = self.rows.iter().rposition(|row| row[col] == EMPTY)?;
        self.rows[row][col] = disc;
        Some(row)
    }

    /// Whether four or more equal discs in a line include this one.
    fn has_four(&self, row: usize, col: usize) -> bool {
        let disc = self.rows[row][col];
        // Discs from this one in one direction, without it.
        let run = |down: isize, right: isize| {
            let cell = |step: isize| {
                let row = row.checked_add_signed(down * step)?;
                self.rows.get(row)?.get(col.checked_add_signed(right * step)?)
            };
            (1..).take_while(|step| cell(*step) == Some(&disc)).count()
        };
        [(0, 1), (1, 0), (1, 1), (1, -1)].iter().any(|(down, right)| run(*down, *right) + run(-down, -right) >= 3)
    }

    /// The columns that are not full.
    fn open_columns(&self) -> impl Iterator<Item = usize> {
        (0..self.cols()).filter(|col| self.rows[0][*col] == EMPTY)
    }

    fn is_full(&self) -> bool {
        !self.rows[0].contains(&EMPTY)
    }

    fn show(&self, table: &mut Table) {
        let mut text = String::from("Board, columns");
        for col in 0..self.cols() {
            text.push_str(if col == 0 { " " } else { ", " });
            text.push_str(&col.to_string());
        }
        text.push(':');
        for row in &self.rows {
            text.push('\n');
            text.extend(row.iter().flat_map(|disc| [*disc as char, ' ']));
            text.pop();
        }
        table.tell(MessageKind::Board, text);
    }
}

impl Position for Board {
    fn prompt(&self, player: usize) -> String {
        format!(
            "This is Connect Four, and you are player {player}. Your discs are {}, those of the other player {}.\n\
             The board has {} rows and {} columns, numbered from 0 to {}. Player 0 begins.\n\
             A disc falls to the lowest free place of its column. Whoever has four discs in a line wins: across, down or \
             diagonally. A full board without such a line is a draw.\n\
             To drop a disc, write the number of a column in brackets, for example [col 3].",
            DISCS[player] as char,
            DISCS[1 - player] as char,
            self.rows.len(),
            self.cols(),
            self.cols() - 1,
        )
    }

    fn begin(&mut self, table: &mut Table) {
        self.show(table);
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        let Some(col) = column(action) else {
            return table.refuse(Refusal::Format, "it has no number of a column in brackets.");
        };
        let dropped = col.index_below(self.cols()).and_then(|col| Some((self.drop(col, DISCS[player])?, col)));
        let Some((row, col)) = dropped else {
            return table.refuse(Refusal::Illegal, "there is no such column, or it is full.");
        };
        let disc = DISCS[player] as char;
        table.tell(MessageKind::Description, format!("Player {player} drops {disc} into column {col}."));
        if self.has_four(row, col) {
            table.win(player, FOUR);
        } else if self.is_full() {
            table.tie(DRAW);
        } else {
            self.show(table);
        }
    }

    fn public(&self, _: &Table) -> Map<String, Value> {
        let row = |row: &Vec<u8>| row.iter().map(|disc| *disc as char).collect::<String>();
        object([("board", self.rows.iter().map(row).collect::<Vec<_>>().into())])
    }

    fn legal_actions(&self) -> Option<Vec<String>> {
        Some(self.open_columns().map(action).collect())
    }
}

/// The action that drops a disc into a column.
fn action(col: usize) -> String {
    format!("[col {col}]")
}

/// `.*\[(?:col\s*)?(\d+)\].*` in any case: the last match that starts on the first line on which any starts.
fn column(action: &str) -> Option<Natural> {
    let column = |mut at: Cursor<'_>| {
        if at.text("col").is_some() {
            at.spaces();
        }
        let column = at.number()?;
        at.text("]")?;
        Some(column)
    };
    let mut start = 0;
    action.split('\n').find_map(|line| {
        let brackets = memchr::memrchr_iter(b'[', line.as_bytes());
        // Blanks within the brackets may go beyond the end of the line.
        let found = brackets.map(|at| start + at + 1).find_map(|at| column(Cursor(&action[at..])));
        start += line.len() + 1;
        found
    })
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn last_column_of_the_first_line_counts() {
        for (action, expected) in [
            ("[1] [2]\n[3]", Some(2)),
            ("x\n[COL  4] [col]\n[3]", Some(4)),
            ("[1] [col\n5]", Some(5)),
            ("[1]\r[2]\u{2028}[3]", Some(3)),
            ("[ 1]", None),
            ("[col 1 ]", None),
            ("[cols 1]", None),
        ] {
            assert_eq!(column(action).map(|col| col.saturated()), expected, "{action}");
        }
    }
}
