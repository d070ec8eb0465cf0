//! Perfect play of small games of two players in turn, with everything in sight.

use std::collections::HashMap;
use std::hash::Hash;

/// A position of such a game, as the player to move sees it.
pub trait Position: Clone + Eq + Hash {
    /// The legal moves.
    fn moves(&self) -> Vec<usize>;

    /// The position after a move, as the other player sees it.
    fn after(&self, chosen: usize) -> Self;

    /// What an ended game is worth to the player to move: 1, 0 or −1; `None` while it goes on.
    fn ended(&self) -> Option<i8>;

    /// What the position is worth, if a theorem says it without a search.
    fn theorem(&self) -> Option<i8> {
        None
    }
}

/// What perfect play makes of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestMoves {
    /// What the position is worth to the player to move: 1 won, 0 drawn, −1 lost.
    pub value: i8,
    /// The moves that keep this value.
    pub moves: Vec<usize>,
}

/// The best moves of a position, by search of all that can follow. `known` keeps the values of positions between calls.
///
/// Games beyond some millions of positions, such as connect four on more than 20 cells, take too long.
///
/// ```
/// use spag_game::exact::{Nim, best_moves};
/// use std::collections::HashMap;
///
/// // Nim is won by leaving piles whose sum without carrying is 0: here by taking 2 of the first pile.
/// let nim = Nim(vec![3, 4, 5]);
/// let best = best_moves(&nim, &mut HashMap::new());
/// assert_eq!((best.value, best.moves), (1, vec![nim.chosen(0, 2)]));
/// ```
pub fn best_moves<P: Position>(position: &P, known: &mut HashMap<P, i8>) -> BestMoves {
    if let Some(value) = position.ended() {
        return BestMoves { value, moves: Vec::new() };
    }
    let worth = |chosen: usize, known: &mut HashMap<P, i8>| -value(&position.after(chosen), known);
    let moves: Vec<(usize, i8)> = position.moves().into_iter().map(|chosen| (chosen, worth(chosen, known))).collect();
    let value = moves.iter().map(|(_, value)| *value).max().unwrap_or(0);
    BestMoves {
        value,
        moves: moves.into_iter().filter(|(_, worth)| *worth == value).map(|(chosen, _)| chosen).collect(),
    }
}

/// The value of a position.
fn value<P: Position>(position: &P, known: &mut HashMap<P, i8>) -> i8 {
    if let Some(value) = position.ended().or_else(|| position.theorem()) {
        return value;
    }
    if let Some(value) = known.get(position) {
        return *value;
    }
    let mut best = -1;
    for chosen in position.moves() {
        best = best.max(-value(&position.after(chosen), known));
        if best == 1 {
            break;
        }
    }
    known.insert(position.clone(), best);
    best
}

/// Tic-tac-toe: the cells of the player to move and of the other, a bit each, by rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TicTacToe {
    /// The cells of the player to move.
    pub own: u16,
    /// The cells of the other.
    pub other: u16,
}

impl TicTacToe {
    const LINES: [u16; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
}

impl Position for TicTacToe {
    fn moves(&self) -> Vec<usize> {
        (0..9).filter(|cell| (self.own | self.other) >> cell & 1 == 0).collect()
    }

    fn after(&self, chosen: usize) -> Self {
        Self { own: self.other, other: self.own | 1 << chosen }
    }

    fn ended(&self) -> Option<i8> {
        if Self::LINES.iter().any(|line| self.other & line == *line) {
            return Some(-1);
        }
        (self.own | self.other == 0o777).then_some(0)
    }
}

/// Connect four on a small board: the discs of each column from the bottom, `true` those of the player to move.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectFour {
    rows: usize,
    columns: Vec<Vec<bool>>,
    /// The last move won.
    is_lost: bool,
}

impl ConnectFour {
    /// An empty board.
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { rows, columns: vec![Vec::new(); cols], is_lost: false }
    }

    /// Whether a cell has a disc of the player who has just moved.
    fn is_movers(&self, column: usize, row: usize) -> bool {
        self.columns.get(column).and_then(|discs| discs.get(row)).is_some_and(|own| !own)
    }

    /// Whether the top disc of a column is in a line of four.
    fn has_line_through(&self, column: usize) -> bool {
        let Some(row) = self.columns[column].len().checked_sub(1) else { return false };
        let run = |right: isize, up: isize| {
            let reached = |steps: isize| {
                let column = column.checked_add_signed(right * steps);
                column.zip(row.checked_add_signed(up * steps)).is_some_and(|(column, row)| self.is_movers(column, row))
            };
            (1..4).take_while(|steps| reached(*steps)).count()
        };
        [(1, 0), (0, 1), (1, 1), (1, -1)].iter().any(|(right, up)| 1 + run(*right, *up) + run(-right, -up) >= 4)
    }
}

impl Position for ConnectFour {
    fn moves(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|column| self.columns[*column].len() < self.rows).collect()
    }

    fn after(&self, chosen: usize) -> Self {
        let mut next = self.clone();
        next.columns[chosen].push(true);
        next.columns.iter_mut().flatten().for_each(|own| *own = !*own);
        next.is_lost = next.has_line_through(chosen);
        next
    }

    fn ended(&self) -> Option<i8> {
        if self.is_lost {
            return Some(-1);
        }
        self.columns.iter().all(|discs| discs.len() >= self.rows).then_some(0)
    }
}

/// Nim: the piles. Who takes the last object wins. A move is a pile and an amount: see [`Nim::chosen`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nim(pub Vec<usize>);

/// Amounts of a pile that a move tells apart.
const AMOUNTS: usize = 128;

impl Nim {
    /// The move that takes `amount` of the pile at `pile`, from 0.
    pub fn chosen(&self, pile: usize, amount: usize) -> usize {
        pile * AMOUNTS + amount
    }
}

impl Position for Nim {
    fn moves(&self) -> Vec<usize> {
        let piles = self.0.iter().enumerate();
        piles.flat_map(|(pile, size)| (1..=*size).map(move |amount| pile * AMOUNTS + amount)).collect()
    }

    fn after(&self, chosen: usize) -> Self {
        let mut piles = self.0.clone();
        piles[chosen / AMOUNTS] -= chosen % AMOUNTS;
        Self(piles)
    }

    fn ended(&self) -> Option<i8> {
        self.0.iter().all(|pile| *pile == 0).then_some(-1)
    }

    /// A position is lost exactly if the sum of its piles without carrying is 0 (Bouton 1901).
    fn theorem(&self) -> Option<i8> {
        Some(if self.0.iter().fold(0, |sum, pile| sum ^ pile) == 0 { -1 } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tic_tac_toe_is_drawn_and_a_fork_is_won() {
        let mut known = HashMap::new();
        let start = best_moves(&TicTacToe::default(), &mut known);
        assert_eq!((start.value, start.moves.len()), (0, 9));
        // X . . / . O . / . . X with O to move: a corner loses, an edge draws.
        let fork = TicTacToe { own: 0o020, other: 0o401 };
        let best = best_moves(&fork, &mut known);
        assert_eq!((best.value, best.moves), (0, vec![1, 3, 5, 7]));
        // A line of the other ends the game.
        assert_eq!(best_moves(&TicTacToe { own: 0o060, other: 0o007 }, &mut known).value, -1);
    }

    #[test]
    fn small_connect_four_is_drawn_and_threats_are_answered() {
        let mut known = HashMap::new();
        assert_eq!(best_moves(&ConnectFour::new(4, 4), &mut known).value, 0);
        // Three in a row: the mover wins, the other must stop it.
        let mut board = ConnectFour::new(4, 5);
        for column in [0, 0, 1, 1, 2] {
            board = board.after(column);
        }
        let mut known = HashMap::new();
        let best = best_moves(&board, &mut known);
        assert!(best.moves == [3] || best.value == -1, "{best:?}");
        let won = best_moves(&board.after(4), &mut known);
        assert_eq!((won.value, won.moves.contains(&3)), (1, true));
    }

    #[test]
    fn nim_is_lost_exactly_with_a_sum_of_zero() {
        /// Nim without the theorem.
        #[derive(Clone, PartialEq, Eq, Hash)]
        struct Searched(Nim);

        impl Position for Searched {
            fn moves(&self) -> Vec<usize> {
                self.0.moves()
            }

            fn after(&self, chosen: usize) -> Self {
                Self(self.0.after(chosen))
            }

            fn ended(&self) -> Option<i8> {
                self.0.ended()
            }
        }

        let mut known = HashMap::new();
        for piles in (0..5).flat_map(|a| (0..5).flat_map(move |b| (0..5).map(move |c| vec![a, b, c]))) {
            let sum = piles.iter().fold(0, |sum, pile| sum ^ pile);
            let nim = Nim(piles);
            let best = best_moves(&nim, &mut HashMap::new());
            assert_eq!(best, best_moves(&Searched(nim.clone()), &mut known), "{nim:?}");
            assert_eq!(best.value, if sum == 0 { -1 } else { 1 }, "{nim:?}");
            for chosen in best.moves.iter().filter(|_| sum != 0) {
                assert_eq!(nim.after(*chosen).0.iter().fold(0, |sum, pile| sum ^ pile), 0);
            }
        }
    }
}
