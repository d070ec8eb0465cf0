//! Endings that several games have, and the declaration of the other labels.

use crate::verdict::{Ending, EndingLabel, Play};

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

/// The endings of more than one game, in the order of reports. They follow those of each game.
pub(super) const ENDINGS: [Ending; 2] = [DRAW, INVALID];

/// An ending by the rules that either seat or neither can win.
macro_rules! ending {
    ($(#[$doc:meta])* $constant:ident, $name:literal, $title:literal, $description:literal) => {
        $(#[$doc])*
        pub const $constant: $crate::Ending = $crate::Ending::new(&$crate::EndingLabel {
            name: $name,
            title: $title,
            description: $description,
            outcome: $name,
            winner: None,
            play: $crate::Play::ByTheRules,
        });
    };
}
pub(super) use ending;

/// The labels of a game of two players without roles of their own.
macro_rules! labels {
    ($name:literal, $title:literal, $utterances:ident, [$($ending:expr),+]) => {
        /// The names of the game.
        pub static LABELS: $crate::Labels = $crate::Labels {
            name: $name,
            title: $title,
            seats: [$crate::Seat::FIRST, $crate::Seat::SECOND],
            verbs: ["plays as player 0", "plays as player 1"],
            endings: &[$($ending),+],
            outcomes: &[$($ending.label().outcome),+],
            broken_rule: "refused actions are the loss of their player",
            item: "deal",
            item_key: "deal",
            utterances: $crate::UtteranceKind::$utterances,
            guesses: &[],
        };
    };
}
pub(super) use labels;
