//! An episode: one game's record, in the reference's file format.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Which seat a player has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Knows the target word and wants the defender to say it.
    Attacker,
    /// Wants to find the word out.
    Defender,
}

impl Role {
    /// The other seat.
    pub fn opponent(self) -> Self {
        match self {
            Self::Attacker => Self::Defender,
            Self::Defender => Self::Attacker,
        }
    }

    /// How files and prompts call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attacker => "attacker",
            Self::Defender => "defender",
        }
    }

    /// Whose utterance the one at `index` (0-based) of a history is: the attacker begins.
    pub fn at(index: usize) -> Self {
        match index.is_multiple_of(2) {
            true => Self::Attacker,
            false => Self::Defender,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One utterance of a game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utterance {
    /// Who speaks.
    pub role: Role,
    /// What is said, exactly.
    pub content: String,
    /// Every other key of the object, kept on a round trip.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Utterance {
    /// An utterance without other keys.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), extra: Map::new() }
    }
}

/// One game: who said what about which word. Made by [`play_games`](crate::play_games) or read from a file; read by
/// judges and by credit assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The utterances in order, the attacker's first.
    pub history: Vec<Utterance>,
    /// The word that only the attacker knows.
    pub target_word: String,
    /// Turns after which an undecided game is tied; a turn is one utterance of each player.
    #[serde(default = "default_turns")]
    pub max_turns: usize,
    /// Every other key of the object, kept on a round trip.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The turns of a game that does not say how many it has.
pub(crate) const DEFAULT_TURNS: usize = 5;

fn default_turns() -> usize {
    DEFAULT_TURNS
}

impl Episode {
    /// A game that has not begun.
    pub fn new(target_word: impl Into<String>, max_turns: usize) -> Self {
        Self { history: Vec::new(), target_word: target_word.into(), max_turns, extra: Map::new() }
    }

    /// Whose turn it is.
    pub fn next_role(&self) -> Role {
        next_role(&self.history)
    }

    /// Appends an utterance.
    pub fn push(&mut self, role: Role, content: impl Into<String>) {
        self.history.push(Utterance::new(role, content));
    }

    /// Rejects an episode that cannot be judged: an empty target word, or roles that do not alternate.
    ///
    /// # Errors
    /// [`Error::TargetWord`] or [`Error::RolesOutOfOrder`].
    pub fn check(&self) -> Result<()> {
        if self.target_word.trim().is_empty() {
            return Err(Error::TargetWord { word: self.target_word.clone(), reason: "it is empty" });
        }
        let wrong = self.history.iter().enumerate().find(|(index, u)| u.role != Role::at(*index));
        match wrong {
            Some((index, u)) => Err(Error::RolesOutOfOrder { index, found: u.role, expected: Role::at(index) }),
            None => Ok(()),
        }
    }
}

/// Whose turn it is after a history.
pub(crate) fn next_role(history: &[Utterance]) -> Role {
    history.last().map_or(Role::Attacker, |last| last.role.opponent())
}
