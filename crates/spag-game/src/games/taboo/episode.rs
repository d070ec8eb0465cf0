//! Which episodes are games of Adversarial Taboo.

use spag_io::Row;

use super::labels::{ATTACKER, LABELS, seat_at};
use crate::episode::{Episode, EpisodeView};
use crate::error::{Error, Result};
use crate::seat::Seat;

impl Episode {
    /// The seat to move.
    pub fn next_role(&self) -> Seat {
        self.history.last().map_or(ATTACKER, |last| LABELS.other(last.role))
    }

    /// Refuses an episode that cannot be judged.
    ///
    /// # Errors
    /// [`Error::Item`] if the target word is empty, [`Error::RolesOutOfOrder`] if the roles do not alternate.
    pub fn check(&self) -> Result<()> {
        self.view().check()
    }
}

impl<'a> EpisodeView<'a> {
    /// Parses and checks a row of a file.
    ///
    /// # Errors
    /// The row is not an episode, or [`EpisodeView::check`] refuses it. The error names file, row and cause.
    pub fn from_row(row: &Row<'a>) -> Result<Self> {
        let episode: Self = row.parse()?;
        episode.check().map_err(|error| row.error(error.to_string()))?;
        Ok(episode)
    }

    /// Refuses an episode that cannot be judged.
    ///
    /// # Errors
    /// [`Error::Item`] if the target word is empty, [`Error::RolesOutOfOrder`] if the roles do not alternate.
    pub fn check(&self) -> Result<()> {
        if self.item.trim().is_empty() {
            return Err(empty_word(&self.item));
        }
        let wrong = self.history.iter().enumerate().find(|(index, u)| u.role != seat_at(*index));
        match wrong {
            Some((index, u)) => Err(Error::RolesOutOfOrder { index, found: u.role, expected: seat_at(index) }),
            None => Ok(()),
        }
    }
}

/// The error of a blank target word.
pub(super) fn empty_word(word: &str) -> Error {
    Error::Item { what: LABELS.item, item: word.to_owned(), reason: "it is empty" }
}
