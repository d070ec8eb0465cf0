//! Kuhn poker in several rounds.

mod exploitability;

use serde_json::{Map, Value};

use super::declare::{ending, labels};
use super::native::{Native, Position, object};
use super::options::Options;
use super::patterns::after_bracket;
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::{DRAW, INVALID};
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;

pub use exploitability::{KuhnPolicy, Order};

ending!(
    /// The rules decided after the last round: by chips, or by the winner of that round.
    CHIPS, "chips", "more chips", "a player wins by the chips at the end"
);
labels!("kuhn-poker", "Kuhn Poker", Moves, [CHIPS, DRAW, INVALID]);

/// What each player pays at the start of a round.
const ANTE: i64 = 1;
/// The names of the cards, the lowest first.
const CARDS: [&str; 3] = ["J", "Q", "K"];

/// Who wins after the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winner {
    /// Who has more chips.
    Chips,
    /// Who won the last round, as in SPIRAL.
    LastRound,
}

/// Whether bets and calls cost a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stakes {
    /// They move no chips, as in TextArena 0.7.4: a round is about the antes.
    Flat,
    /// They cost one chip each.
    Bets,
}

/// Rounds and stakes.
#[derive(Debug)]
pub(crate) struct KuhnPoker {
    rounds: u64,
    stakes: Stakes,
    winner: Winner,
}

impl KuhnPoker {
    pub(crate) fn new(options: &mut Options<'_>) -> Result<Self> {
        Ok(Self {
            rounds: options.integer("rounds", 1..=99, 3)?,
            stakes: if options.truth("bets_count", false)? { Stakes::Bets } else { Stakes::Flat },
            winner: match options.name("winner", &["chips", "last_round"])? {
                "chips" => Winner::Chips,
                _ => Winner::LastRound,
            },
        })
    }
}

impl Native for KuhnPoker {
    type Position = Rounds;

    const LABELS: &'static Labels = &LABELS;
    const AMOUNTS: Option<&'static str> = Some("chips");

    fn deal(&self, _: &str, random: PythonRandom) -> Result<Rounds> {
        Ok(Rounds {
            rounds: self.rounds,
            stakes: self.stakes,
            winner: self.winner,
            random,
            deck: [0, 1, 2],
            round: 0,
            chips: [0, 0],
            pot: 0,
            betting: Betting::Open,
        })
    }
}

/// What was said in a round so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Betting {
    Open,
    Checked,
    Bet,
}

/// A move, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Check,
    Bet,
    Fold,
    Call,
}

impl Move {
    const ALL: [Self; 4] = [Self::Check, Self::Bet, Self::Fold, Self::Call];

    fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Bet => "bet",
            Self::Fold => "fold",
            Self::Call => "call",
        }
    }

    /// The first action of `\[(check|bet|fold|call)\]` in any case.
    fn find(action: &str) -> Option<Self> {
        after_bracket(action, |at| {
            Self::ALL.into_iter().find(|named| {
                let mut at = at;
                at.text(named.name()).and_then(|()| at.text("]")).is_some()
            })
        })
    }
}

impl Betting {
    fn legal(self) -> [Move; 2] {
        match self {
            Self::Open | Self::Checked => [Move::Check, Move::Bet],
            Self::Bet => [Move::Fold, Move::Call],
        }
    }
}

/// The rounds of a match.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    rounds: u64,
    stakes: Stakes,
    winner: Winner,
    random: PythonRandom,
    /// As the last shuffle left it; each player has the card at its own index.
    deck: [usize; 3],
    /// From 1.
    round: u64,
    chips: [i64; 2],
    pot: i64,
    betting: Betting,
}

impl Rounds {
    /// Deals a round and returns who begins it: player 1 the first, then they alternate.
    fn deal(&mut self, table: &mut Table) -> usize {
        self.round += 1;
        self.random.shuffle(&mut self.deck);
        self.chips = self.chips.map(|chips| chips - ANTE);
        (self.pot, self.betting) = (2 * ANTE, Betting::Open);
        let beginner = (self.round % 2) as usize;
        for player in 0..2 {
            let (round, rounds, card) = (self.round, self.rounds, CARDS[self.deck[player]]);
            let text = format!("Round {round} of {rounds}. Your card is {card}.");
            table.tell_only(player, MessageKind::Message, text);
            let board =
                if player == beginner { self.legal_text() } else { format!("Player {beginner} begins this round.") };
            table.tell_only(player, MessageKind::Board, board);
        }
        beginner
    }

    fn legal_text(&self) -> String {
        let [first, second] = self.betting.legal().map(Move::name);
        format!("Your actions are [{first}] and [{second}].")
    }

    /// Puts a chip into the pot, if bets do so.
    fn stake(&mut self, player: usize) {
        if self.stakes == Stakes::Bets {
            self.chips[player] -= 1;
            self.pot += 1;
        }
    }

    /// Gives the pot to a player, and deals the next round or ends the match.
    fn end_round(&mut self, winner: usize, how: &str, table: &mut Table) {
        self.chips[winner] += self.pot;
        let [first, second] = self.chips;
        let text = format!(
            "{how} Player {winner} wins the pot of {}. Chips: player 0 has {first}, player 1 has {second}.",
            self.pot
        );
        table.tell(MessageKind::Message, text);
        if self.round < self.rounds {
            let beginner = self.deal(table);
            return table.pass_to(beginner);
        }
        table.count(self.chips);
        match self.winner {
            Winner::LastRound => table.win(winner, CHIPS),
            Winner::Chips if first == second => table.tie(DRAW),
            Winner::Chips => table.win(usize::from(second > first), CHIPS),
        }
    }

    fn showdown(&mut self, table: &mut Table) {
        let cards = [self.deck[0], self.deck[1]];
        let winner = usize::from(cards[1] > cards[0]);
        let [first, second] = cards.map(|card| CARDS[card]);
        self.end_round(winner, &format!("Showdown: player 0 has {first}, player 1 has {second}."), table);
    }
}

impl Position for Rounds {
    fn prompt(&self, player: usize) -> String {
        let stakes = match self.stakes {
            Stakes::Flat => "A bet and a call cost no chips: every round is about the two antes.",
            Stakes::Bets => "A bet and a call each put one more chip into the pot.",
        };
        let aim = match self.winner {
            Winner::Chips => "Whoever has more chips after the last round wins.",
            Winner::LastRound => "Whoever wins the last round wins the game.",
        };
        format!(
            "This is Kuhn poker in {} rounds, and you are player {player}.\n\
             The deck has three cards: J is below Q, Q is below K. In each round both players pay an ante of {ANTE} and have \
             one card that the other does not see. {stakes}\n\
             [check] passes without a bet; after two checks the higher card wins the pot.\n\
             [bet] asks the other player to call or fold.\n\
             [call] answers a bet, and the higher card wins the pot.\n\
             [fold] answers a bet and leaves the pot to the other player.\n\
             {aim} Write one action in brackets, for example [check].",
            self.rounds,
        )
    }

    fn begin(&mut self, table: &mut Table) {
        let beginner = self.deal(table);
        table.begin_with(beginner);
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        let Some(played) = Move::find(action) else {
            return table.refuse(Refusal::Format, "it is none of [check], [bet], [fold] and [call].");
        };
        if !self.betting.legal().contains(&played) {
            let why = format!("[{}] is not allowed now. {}", played.name(), self.legal_text());
            return table.refuse(Refusal::Illegal, why);
        }
        table.tell(MessageKind::Description, format!("Player {player} plays [{}].", played.name()));
        match (played, self.betting) {
            (Move::Check, Betting::Checked) => return self.showdown(table),
            (Move::Check, _) => self.betting = Betting::Checked,
            (Move::Bet, _) => {
                self.stake(player);
                self.betting = Betting::Bet;
            }
            (Move::Call, _) => {
                self.stake(player);
                return self.showdown(table);
            }
            (Move::Fold, _) => return self.end_round(1 - player, &format!("Player {player} folds."), table),
        }
        table.tell_only(1 - player, MessageKind::Board, self.legal_text());
    }

    fn public(&self, table: &Table) -> Map<String, Value> {
        let mut state = object([
            ("round", self.round.into()),
            ("rounds", self.rounds.into()),
            ("chips", self.chips.to_vec().into()),
        ]);
        if !table.is_over() {
            state.insert("pot".into(), self.pot.into());
            state.insert("legal".into(), self.betting.legal().map(Move::name).to_vec().into());
        }
        state
    }

    fn private(&self, player: usize) -> Map<String, Value> {
        object([("card", CARDS[self.deck[player]].into())])
    }

    fn legal_actions(&self) -> Option<Vec<String>> {
        Some(self.betting.legal().map(|legal| format!("[{}]", legal.name())).to_vec())
    }
}
