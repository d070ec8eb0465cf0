//! What a game that another program plays showed its players, and how it ended.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::message::{Message, MessageKind, Sender};
use crate::seat::{SEATS, Seat};
use crate::verdict::Verdict;

/// A message to the player of an utterance, without whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// −1 for the game, else the index of the seat that said it.
    pub from: i8,
    /// What it is.
    pub kind: MessageKind,
    /// The text.
    pub text: String,
}

impl Told {
    /// The message to `to`, of a game with these seats.
    pub fn message(&self, to: Seat, seats: [Seat; SEATS]) -> Message {
        let seat = usize::try_from(self.from).ok().and_then(|index| seats.get(index));
        let from = seat.map_or(Sender::Game, |seat| Sender::Player(*seat));
        Message { to: Some(to), from, kind: self.kind, text: self.text.clone() }
    }
}

/// What the record of a game keeps if the rules of the game are not in this program: what the players were shown, and how it
/// ended. With it a record is judged, credited and trained on without the program that played the game.
///
/// Episodes have it under the key `transcript`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// For each utterance, the messages that its player had not been given before.
    pub told: Vec<Vec<Told>>,
    /// The name of the ending.
    pub ending: String,
    /// The index of the winner's seat; none in a draw.
    pub winner: Option<usize>,
    /// What the other program says of the ending.
    pub reason: String,
}

/// The key of the transcript of an episode.
pub(crate) const TRANSCRIPT: &str = "transcript";

impl Transcript {
    /// How the game ended, by its labels.
    ///
    /// # Errors
    /// The ending is not one of the labels, or the winner not one of the seats.
    pub(crate) fn verdict(&self, labels: &Labels) -> Result<Verdict> {
        let ending = labels.ending(&self.ending).ok_or(Error::Transcript { reason: "has an unknown ending" })?;
        let length = self.told.len();
        match self.winner.map(|winner| labels.seats.get(winner)) {
            None => Ok(Verdict::of(ending, length)),
            Some(Some(winner)) => Ok(Verdict::won_by(*winner, ending, length)),
            Some(None) => Err(Error::Transcript { reason: "has an unknown winner" }),
        }
    }
}
