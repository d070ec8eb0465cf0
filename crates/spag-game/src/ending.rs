//! The ways in which games end.

use std::ops::Deref;

use crate::seat::Seat;

/// A named way in which games end, by its [`EndingLabel`]. A constant of each game.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ending(&'static EndingLabel);

impl Ending {
    /// The ending of this label.
    pub const fn new(label: &'static EndingLabel) -> Self {
        Self(label)
    }

    /// What is known of all games that end so.
    pub const fn label(self) -> &'static EndingLabel {
        self.0
    }
}

impl Deref for Ending {
    type Target = EndingLabel;

    fn deref(&self) -> &EndingLabel {
        self.0
    }
}

/// What is known of all games that end in one way.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct EndingLabel {
    /// The name in files: "right_guess".
    pub name: &'static str,
    /// The name in tables and charts: "right guess".
    pub title: &'static str,
    /// What happened, for a reader.
    pub description: &'static str,
    /// The group of endings that a [`Verdict`](crate::Verdict) is written as.
    pub outcome: &'static str,
    /// The winner of all games that end so. `None` for a tie, and if either seat can win so.
    pub winner: Option<Seat>,
    /// Whether a rule was broken.
    pub play: Play,
}

/// Whether a game ended by its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Play {
    /// It did.
    ByTheRules,
    /// The loser broke a rule.
    RuleBroken,
}

/// A player lost by refused actions. Either seat can.
pub const INVALID: Ending = Ending::new(&EndingLabel {
    name: "invalid",
    title: "refused actions",
    description: "a player loses by actions that are refused",
    outcome: "invalid",
    winner: None,
    play: Play::RuleBroken,
});

/// No winner at the end.
pub const DRAW: Ending = Ending::new(&EndingLabel {
    name: "draw",
    title: "draw",
    description: "drawn",
    outcome: "draw",
    winner: None,
    play: Play::ByTheRules,
});
