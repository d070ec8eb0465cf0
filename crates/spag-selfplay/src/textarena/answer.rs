//! Answers of a process, by the protocol of `spag env`.

use std::cmp::Ordering;

use serde::Deserialize;
use spag_game::Told;

/// The most messages of an answer.
const MAX_MESSAGES: usize = 10_000;

/// An answer.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Answer {
    /// To a reset or a step that was carried out.
    Observation(Observation),
    /// To one that was not.
    Error {
        /// The class of the error.
        code: String,
        /// What is wrong.
        message: String,
    },
}

/// What a step did.
#[derive(Debug, Deserialize)]
pub(super) struct Observation {
    /// Who moves next; none at the end.
    player: Option<usize>,
    /// Whether the action was refused.
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    pub(super) invalid: bool,
    /// What this player had not been told before.
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    observations: Vec<Told>,
    rewards: Option<Rewards>,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Rewards {
    #[serde(rename = "0")]
    first: f64,
    #[serde(rename = "1")]
    second: f64,
}

/// What follows an observation.
#[derive(Debug)]
pub(super) enum Next {
    /// This player moves, after these messages.
    Turn(usize, Vec<Told>),
    /// The end: the index of the winner, and TextArena's words for it.
    End(Option<usize>, String),
}

impl Observation {
    /// What follows.
    ///
    /// # Errors
    /// It is neither a turn nor an end.
    pub(super) fn next(self) -> Result<Next, &'static str> {
        match (self.player, self.rewards, self.reason) {
            (Some(0 | 1), ..) if self.observations.len() > MAX_MESSAGES => Err("it has too many messages"),
            (Some(player @ (0 | 1)), None, _) => Ok(Next::Turn(player, self.observations)),
            (None, Some(rewards), Some(reason)) => {
                let winner = match rewards.first.partial_cmp(&rewards.second) {
                    Some(Ordering::Greater) => Some(0),
                    Some(Ordering::Less) => Some(1),
                    Some(Ordering::Equal) => None,
                    None => return Err("a reward is not a number"),
                };
                Ok(Next::End(winner, reason))
            }
            _ => Err("it is neither a turn of player 0 or 1 nor an end with rewards and reason"),
        }
    }
}
