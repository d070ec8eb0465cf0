//! What files, reports and pages call the parts of a game.

use crate::ending::{Ending, INVALID};
use crate::seat::{SEATS, Seat};

/// The names of a game, its seats and its endings. A constant of each game.
#[derive(Debug, PartialEq, Eq)]
pub struct Labels {
    /// The name of the game, for command lines and files.
    pub name: &'static str,
    /// The name of the game in titles.
    pub title: &'static str,
    /// The seats, the one that begins first.
    pub seats: [Seat; SEATS],
    /// What each seat does, for "X attacks, Y defends".
    pub verbs: [&'static str; SEATS],
    /// All ways in which games end, in the order of reports.
    pub endings: &'static [Ending],
    /// All values of [`EndingLabel::outcome`](crate::EndingLabel::outcome), in the order of reports.
    pub outcomes: &'static [&'static str],
    /// Whose loss a broken rule is, for notes on win rates.
    pub broken_rule: &'static str,
    /// What a game is about, for a reader: "target word".
    pub item: &'static str,
    /// The key of the item in files and pages.
    pub item_key: &'static str,
    /// What its utterances are.
    pub utterances: UtteranceKind,
    /// Endings by a guess of the second seat: guesses in its first utterance are counted.
    pub guesses: &'static [Ending],
}

/// What the utterances of a game are, on which it depends what statistics of their texts mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtteranceKind {
    /// Sentences: a player that repeats them says nothing new.
    Sentences,
    /// Moves, or not known: equal ones are as good as different ones.
    Moves,
}

impl Labels {
    /// The other seat.
    pub fn other(&self, seat: Seat) -> Seat {
        self.seats[1 - seat.index()]
    }

    /// The seat that speaks at a 0-based index of a history, if the seats alternate.
    pub fn seat_at(&self, index: usize) -> Seat {
        self.seats[index % SEATS]
    }

    /// Whether the game refuses utterances, which players can lose by.
    pub fn has_refusals(&self) -> bool {
        self.endings.contains(&INVALID)
    }

    /// Who has which seat: "X attacks, Y defends".
    pub fn pairing(&self, first: &str, second: &str) -> String {
        format!("{first} {}, {second} {}", self.verbs[0], self.verbs[1])
    }

    /// The ending of this [`EndingLabel::name`](crate::EndingLabel::name).
    pub fn ending(&self, name: &str) -> Option<Ending> {
        self.endings.iter().copied().find(|ending| ending.name == name)
    }
}
