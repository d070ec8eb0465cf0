//! The names of seats and endings.

use crate::ending::{Ending, EndingLabel, Play};
use crate::labels::{Labels, UtteranceKind};
use crate::seat::Seat;

/// Knows the target word and wants the defender to say it.
pub const ATTACKER: Seat = Seat::new(0, "attacker");
/// Wants to guess the word.
pub const DEFENDER: Seat = Seat::new(1, "defender");

/// The defender named the target word and wins.
pub const RIGHT_GUESS: Ending = Ending::new(&EndingLabel {
    name: "right_guess",
    title: "right guess",
    description: "defender names the word and wins",
    outcome: "defender wins",
    winner: Some(DEFENDER),
    play: Play::ByTheRules,
});
/// The defender named another word: the attacker wins.
pub const WRONG_GUESS: Ending = Ending::new(&EndingLabel {
    name: "wrong_guess",
    title: "wrong guess",
    description: "defender names a wrong word, attacker wins",
    outcome: "attacker wins",
    winner: Some(ATTACKER),
    play: Play::ByTheRules,
});
/// The defender uttered the target word without naming it: the attacker wins.
pub const SAID_UNKNOWINGLY: Ending = Ending::new(&EndingLabel {
    name: "said_unknowingly",
    title: "said unknowingly",
    description: "defender says the word unknowingly, attacker wins",
    outcome: "attacker wins",
    winner: Some(ATTACKER),
    play: Play::ByTheRules,
});
/// The attacker uttered the target word or made a prediction, and loses.
pub const BROKEN_RULE: Ending = Ending::new(&EndingLabel {
    name: "broken_rule",
    title: "broken rule",
    description: "attacker breaks the rules",
    outcome: "attacker breaks the rules",
    winner: Some(DEFENDER),
    play: Play::RuleBroken,
});
/// No winner within the turns.
pub const TIE: Ending = Ending::new(&EndingLabel {
    name: "tie",
    title: "tie",
    description: "tied",
    outcome: "tied game",
    winner: None,
    play: Play::ByTheRules,
});

/// The names of Adversarial Taboo.
pub static LABELS: Labels = Labels {
    name: "taboo",
    title: "Adversarial Taboo",
    seats: [ATTACKER, DEFENDER],
    verbs: ["attacks", "defends"],
    endings: &[RIGHT_GUESS, WRONG_GUESS, SAID_UNKNOWINGLY, BROKEN_RULE, TIE],
    outcomes: &["attacker wins", "defender wins", "attacker breaks the rules", "tied game"],
    broken_rule: "a broken rule is the attacker's loss",
    item: "target word",
    item_key: "target_word",
    utterances: UtteranceKind::Sentences,
    guesses: &[RIGHT_GUESS, WRONG_GUESS],
};

/// The seat whose turn it is at a 0-based index of a history: the attacker begins.
pub fn seat_at(index: usize) -> Seat {
    LABELS.seat_at(index)
}
