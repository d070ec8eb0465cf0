//! Which episodes are games of Adversarial Taboo.

use super::labels::{ATTACKER, LABELS, seat_at};
use crate::episode::{Episode, EpisodeView};
use crate::error::{Error, Result};
use crate::seat::Seat;

impl Episode {
    /// The seat to move.
    pub fn next_role(&self) -> Seat {
        self.history.last().map_or(ATTACKER, |last| LABELS.other(last.seat))
    }
}

impl EpisodeView<'_> {
    /// Refuses an episode that cannot be judged.
    ///
    /// # Errors
    /// [`Error::Item`] if the target word is empty, [`Error::RolesOutOfOrder`] if the roles do not alternate.
    pub(super) fn check(&self) -> Result<()> {
        if self.item.trim().is_empty() {
            return Err(empty_word(&self.item));
        }
        let wrong = self.history.iter().enumerate().find(|(index, u)| u.seat != seat_at(*index));
        match wrong {
            Some((index, u)) => Err(Error::RolesOutOfOrder { index, found: u.seat, expected: seat_at(index) }),
            None => Ok(()),
        }
    }
}

/// The error of a blank target word.
pub(super) fn empty_word(word: &str) -> Error {
    Error::Item { what: LABELS.item, item: word.to_owned(), reason: "it is empty" }
}
