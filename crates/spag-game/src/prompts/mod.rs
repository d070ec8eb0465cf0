//! How a game is put into words for a model: one wording while playing, many while training.

mod data;
mod fill;
mod render;

use std::path::Path;

use rand::Rng;

use crate::episode::{Role, Utterance};
use crate::error::{Error, Result};
use data::PromptFile;

/// All wordings of a prompt file.
///
/// The default is embedded; `--prompts FILE` replaces it. `data/prompts.json` of this crate shows every key.
#[derive(Clone, Debug)]
pub struct PromptSet(PromptFile);

const EMBEDDED: &str = include_str!("../../data/prompts.json");

impl Default for PromptSet {
    fn default() -> Self {
        // A test loads the embedded file with every check.
        serde_json::from_str(EMBEDDED).map(Self).unwrap_or_else(|_| Self(PromptFile::default()))
    }
}

impl PromptSet {
    /// Reads a prompt file.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown or missing key, an empty list, or a text that lacks its placeholder.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let fail = |reason: String| Error::Prompts { path: path.to_owned(), reason };
        let file: PromptFile = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
        file.check().map_err(fail)?;
        Ok(Self(file))
    }

    /// The prompt of a player's turn in the playing wording.
    pub fn playing_query(&self, history: &[Utterance], target_word: &str, max_turns: usize) -> String {
        render::playing(&self.0, history, target_word, max_turns)
    }

    /// The prompt of a player's turn in a wording drawn from `rng`.
    pub fn training_query(
        &self,
        history: &[Utterance],
        target_word: &str,
        max_turns: usize,
        rng: &mut impl Rng,
    ) -> String {
        render::training(&self.0, history, target_word, max_turns, rng)
    }
}

/// Whose turn it is after a history.
fn next_role(history: &[Utterance]) -> Role {
    history.last().map_or(Role::Attacker, |last| last.role.opponent())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_file_passes_every_check() {
        let file: PromptFile = serde_json::from_str(EMBEDDED).unwrap();
        file.check().unwrap();
        assert_eq!(file.rules.len(), 8);
    }
}
