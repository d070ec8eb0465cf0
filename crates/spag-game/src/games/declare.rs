//! The declaration of endings and labels.

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
