//! Liar's dice for two players.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::declare::{ending, labels};
use super::native::{Native, Position, object};
use super::options::Options;
use super::patterns::{Natural, after_bracket, has_token};
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::INVALID;
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;

ending!(
    /// A player has no dice left.
    LAST_STANDING, "last_standing", "last with dice", "a player is the last one with dice and wins"
);
labels!("liars-dice", "Liar's Dice", Moves, [LAST_STANDING, INVALID]);

/// The dice of each player at the start.
#[derive(Debug)]
pub(crate) struct LiarsDice {
    dice: u64,
}

impl LiarsDice {
    pub(crate) fn new(options: &mut Options<'_>) -> Result<Self> {
        Ok(Self { dice: options.integer("dice", 1..=20, 5)? })
    }
}

impl Native for LiarsDice {
    type Position = Cups;

    const LABELS: &'static Labels = &LABELS;

    fn deal(&self, _: &str, random: PythonRandom) -> Result<Cups> {
        let dice = || vec![0; self.dice as usize];
        Ok(Cups { random, dice: [dice(), dice()], bid: None })
    }
}

/// A bid: how many dice of both players show a face.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bid {
    quantity: Natural,
    face: Natural,
}

impl Bid {
    /// `\[bid\s*:?\s*(\d+)[,\s]+(\d+)\]` in any case.
    fn find(action: &str) -> Option<Self> {
        after_bracket(action, |mut at| {
            at.text("bid")?;
            at.spaces();
            if at.text(":").is_some() {
                at.spaces();
            }
            let quantity = at.number()?;
            at.commas_and_spaces()?;
            let face = at.number()?;
            at.text("]")?;
            Some(Self { quantity, face })
        })
    }

    /// Why it cannot follow another bid.
    fn problem_after(&self, last: &Self) -> Option<&'static str> {
        match (self.quantity.cmp(&last.quantity), self.face.cmp(&last.face)) {
            (Ordering::Less, _) => Some("its quantity is lower than that of the last bid."),
            (_, Ordering::Less) => Some("its face is lower than that of the last bid."),
            (Ordering::Equal, Ordering::Equal) => Some("it is the last bid."),
            _ if !(1..=6).contains(&self.face.saturated()) => Some("a die has the faces 1 to 6."),
            _ => None,
        }
    }
}

/// The dice of both players, and the last bid with its player.
#[derive(Clone, Debug)]
pub(crate) struct Cups {
    random: PythonRandom,
    dice: [Vec<u32>; 2],
    bid: Option<(usize, Bid)>,
}

impl Cups {
    /// Rolls all dice that are left, without a bid.
    fn roll(&mut self, table: &mut Table) {
        self.bid = None;
        for die in self.dice.iter_mut().flatten() {
            *die = self.random.in_range(1, 6);
        }
        for player in 0..2 {
            let left = self.dice.each_ref().map(Vec::len);
            let own: Vec<String> = self.dice[player].iter().map(u32::to_string).collect();
            let text = format!(
                "New roll. Player 0 has {} dice, player 1 has {}. Your dice: {}.",
                left[0],
                left[1],
                own.join(", ")
            );
            table.tell_only(player, MessageKind::Board, text);
        }
    }

    /// Calls the last bid.
    fn call(&mut self, table: &mut Table) {
        let caller = table.player();
        let Some((bidder, bid)) = self.bid.take_if(|(_, bid)| bid.quantity.saturated() > 0) else {
            return self.refuse(Refusal::Illegal, "there is no bid to call.", table);
        };
        let face = bid.face.saturated();
        let count = self.dice.iter().flatten().filter(|die| u64::from(**die) == face).count() as u64;
        let quantity = bid.quantity.saturated();
        let loser = if count < quantity { bidder } else { caller };
        let text = format!(
            "Player {caller} calls the bid of {quantity} dice with face {face}. There are {count}: player {loser} loses a \
             die."
        );
        table.tell(MessageKind::Message, text);
        self.dice[loser].pop();
        self.roll(table);
        if self.dice[loser].is_empty() {
            table.win(1 - loser, LAST_STANDING);
        }
    }

    fn refuse(&mut self, refusal: Refusal, why: &str, table: &mut Table) {
        table.refuse(refusal, why);
        if table.is_over() {
            self.dice[table.player()].clear();
            self.roll(table);
        }
    }
}

impl Position for Cups {
    fn prompt(&self, player: usize) -> String {
        format!(
            "This is liar's dice for two, and you are player {player}. Each player begins with {} dice and sees only its own. \
             Player 0 begins.\n\
             Either bid that at least so many dice of both players show a face: [bid: 3, 4] says three dice with face 4. A bid \
             must raise the quantity or the face of the last bid and lower neither.\n\
             Or write [call] if you doubt the last bid: if fewer dice show its face, its player loses a die, else you do. Then \
             all dice are rolled again.\n\
             Whoever has no dice left is out, and the other player wins.",
            self.dice[player].len(),
        )
    }

    fn begin(&mut self, table: &mut Table) {
        self.roll(table);
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        if has_token(action, "call") {
            return self.call(table);
        }
        let Some(bid) = Bid::find(action) else {
            return self.refuse(Refusal::Format, "it is neither a bid like [bid: 3, 4] nor [call].", table);
        };
        let opening = Bid::default();
        let last = self.bid.as_ref().map_or(&opening, |(_, bid)| bid);
        if let Some(problem) = bid.problem_after(last) {
            return self.refuse(Refusal::Illegal, problem, table);
        }
        let (quantity, face) = (bid.quantity.saturated(), bid.face.saturated());
        table.tell(MessageKind::Description, format!("Player {player} bids {quantity} dice with face {face}."));
        self.bid = Some((player, bid));
    }

    fn public(&self, _: &Table) -> Map<String, Value> {
        let bid = self.bid.as_ref().map(|(_, bid)| [bid.quantity.saturated(), bid.face.saturated()]);
        object([
            ("dice", self.dice.each_ref().map(Vec::len).to_vec().into()),
            ("bid", json!(bid)),
            ("bidder", json!(self.bid.as_ref().map(|(bidder, _)| bidder))),
        ])
    }

    fn private(&self, player: usize) -> Map<String, Value> {
        object([("dice", self.dice[player].clone().into())])
    }
}
