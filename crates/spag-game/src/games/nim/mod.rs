//! Nim.

mod perfect;

use serde_json::{Map, Value};

use super::declare::{ending, labels};
use super::native::{Native, Position, object};
use super::options::Options;
use super::patterns::{Natural, after_bracket};
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::INVALID;
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;

pub(super) use perfect::best_actions;
pub use perfect::perfect_play;

ending!(
    /// A player takes the last object.
    LAST_OBJECT, "last_object", "last object", "a player takes the last object and wins"
);
labels!("nim", "Nim", Moves, [LAST_OBJECT, INVALID]);

/// The piles at the start.
#[derive(Debug)]
pub(crate) struct Nim {
    piles: Vec<u64>,
}

impl Nim {
    pub(crate) fn new(options: &mut Options<'_>) -> Result<Self> {
        Ok(Self { piles: options.integers("piles", 16, 1..=99, &[3, 4, 5])? })
    }
}

impl Native for Nim {
    type Position = Piles;

    const LABELS: &'static Labels = &LABELS;

    fn deal(&self, _: &str, _: PythonRandom) -> Result<Piles> {
        Ok(Piles(self.piles.clone()))
    }
}

/// The objects that each pile has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piles(Vec<u64>);

impl Piles {
    fn show(&self, table: &mut Table) {
        let mut text = String::from("Piles:");
        for (pile, left) in self.0.iter().enumerate() {
            text.push_str(&format!("\npile {pile}: {left}"));
        }
        table.tell(MessageKind::Board, text);
    }

    /// Takes objects of a pile: its index and the number, if it has as many.
    fn take(&mut self, pile: &Natural, amount: &Natural) -> Option<(usize, u64)> {
        let pile = pile.index_below(self.0.len())?;
        let amount = amount.saturated();
        if amount == 0 {
            return None;
        }
        self.0[pile] = self.0[pile].checked_sub(amount)?;
        Some((pile, amount))
    }
}

impl Position for Piles {
    fn prompt(&self, player: usize) -> String {
        format!(
            "This is Nim, and you are player {player}. There are {} piles of objects, numbered from 0. Player 0 begins.\n\
             Take at least one object of one pile in each turn. Whoever takes the last object of all wins.\n\
             Write the number of the pile and the number of objects in brackets, for example [0 2].",
            self.0.len(),
        )
    }

    fn begin(&mut self, table: &mut Table) {
        self.show(table);
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        match pile_and_amount(action).map(|(pile, amount)| self.take(&pile, &amount)) {
            None => table.refuse(Refusal::Format, "it has no numbers of a pile and of objects in brackets."),
            Some(None) => table.refuse(Refusal::Illegal, "there is no such pile, or not that many objects in it."),
            Some(Some((pile, amount))) => {
                let text = format!("Player {player} takes {amount} of pile {pile}.");
                table.tell(MessageKind::Description, text);
                if self.0.iter().all(|left| *left == 0) {
                    table.win(player, LAST_OBJECT);
                }
            }
        }
        self.show(table);
    }

    fn public(&self, _: &Table) -> Map<String, Value> {
        object([("piles", self.0.clone().into())])
    }

    fn legal_actions(&self) -> Option<Vec<String>> {
        Some(moves(&self.0).map(action).collect())
    }
}

/// All moves: a pile and an amount.
fn moves(piles: &[u64]) -> impl Iterator<Item = (usize, u64)> {
    piles.iter().enumerate().flat_map(|(pile, left)| (1..=*left).map(move |amount| (pile, amount)))
}

/// The action that makes a move.
fn action((pile, amount): (usize, u64)) -> String {
    format!("[{pile} {amount}]")
}

/// `\[\s*(\d+)\s+(\d+)\s*\]`
fn pile_and_amount(action: &str) -> Option<(Natural, Natural)> {
    after_bracket(action, |mut at| {
        at.spaces();
        let pile = at.number()?;
        at.spaces().then_some(())?;
        let amount = at.number()?;
        at.spaces();
        at.text("]")?;
        Some((pile, amount))
    })
}
