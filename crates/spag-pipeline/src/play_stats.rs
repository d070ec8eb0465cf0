//! How a pile of games went, in numbers.

use serde::{Deserialize, Serialize};

use spag_selfplay::Rate;

/// Statistics of a set of games between the same two players.
///
/// Win rates are among decided games: a tie decides nothing, a broken rule counts as the attacker's loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayStats {
    /// How many games.
    pub games: usize,
    /// The attacker's wins among decided games.
    pub attacker_win: Rate,
    /// The defender's wins among decided games, the attacker's broken rules included.
    pub defender_win: Rate,
    /// Games ended by naming the right word, among all.
    pub right_guess: Rate,
    /// Games ended by naming a wrong word, among all.
    pub wrong_guess: Rate,
    /// Games ended by the defender's saying the word unknowingly, among all.
    pub said_unknowingly: Rate,
    /// Games ended by the attacker's breaking the rules, among all.
    pub broken_rule: Rate,
    /// Ties among all games.
    pub tie: Rate,
    /// Mean number of turns up to the deciding utterance; a turn is an utterance of each, the last may be half.
    pub mean_turns: f64,
    /// True clues among the clues that attackers gave, as the lexicon has them. Clues of one game hang together, so
    /// the interval is somewhat too narrow.
    pub true_clues: Rate,
}
