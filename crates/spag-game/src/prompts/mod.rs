//! How a game is put into words for a model: one wording while playing, many while training.

mod check;
mod data;
mod draw;
mod json;
mod render;
mod template;
mod wordings;

use std::path::Path;

use rand::Rng;

use crate::episode::{Role, Utterance, next_role};
use crate::error::{Error, Result};
use data::PromptFile;
pub use json::JsonPrompts;
use render::Scene;
use spag_io::cause;
use wordings::Wordings;

/// All wordings of a prompt file.
///
/// The default is the crate's `data/prompts.json`, which is embedded and shows every key; `--prompts FILE` replaces it.
/// A prompt is its parts put together as they are: blanks and line breaks belong to the file.
///
/// | Key | What it is |
/// |---|---|
/// | `rules` | texts with `{max_turns}`; the first is played with, training draws one of them |
/// | `playing.beginning` | after the rules, where nothing has been said yet |
/// | `playing.history`, `.entry` | otherwise: the header, and each utterance with `{role}` and `{content}` |
/// | `playing.instruction` | the end: an `attacker`'s with `{target_word}`, and a `defender`'s |
/// | `training.playing_share` | probability of the playing wording (0 where the key is missing) |
/// | `training.layouts` | weights of `chat`, `chat_inverse` and `alpaca` |
/// | `training.dialogue_prefixes` | what may stand before every name |
/// | `training.names` | pairs: the player to move, the other; `{self}` and `{other}` are their roles |
/// | `training.system_names` | names of the section with the rules |
/// | `training.after_name` | what follows every name |
/// | `training.before_instruction` | between rules and instruction in the chat layouts |
/// | `training.beginning` | where nothing has been said yet: after the instruction (chat), after the rules (alpaca) |
/// | `training.history`, `.after_history` | around the utterances in the alpaca layout |
/// | `training.alpaca_system_share` | probability that the alpaca layout begins with the system name |
/// | `training.alpaca_nameless_share` | probability that it ends in the instruction, its full stop replaced by `after_name` |
///
/// With P a prefix, N the name of the player to move and S the system name, each name followed by `after_name`, and U
/// the utterances as P, name, content:
///
/// - playing: rules, `beginning` or `history` and entries, instruction;
/// - chat: P S rules `before_instruction` instruction (`beginning`) U P N;
/// - chat inverse: U P S rules `before_instruction` instruction (`beginning`) P N;
/// - alpaca: (S) rules, `beginning` or P `history` U `after_history`, instruction, P N.
#[derive(Clone, Debug)]
pub struct PromptSet {
    file: PromptFile,
    wordings: Wordings,
}

const EMBEDDED: &str = include_str!("../../data/prompts.json");

impl Default for PromptSet {
    fn default() -> Self {
        // A test loads the embedded file with every check.
        Self::new(serde_json::from_str(EMBEDDED).unwrap_or_default())
    }
}

impl PromptSet {
    fn new(file: PromptFile) -> Self {
        Self { wordings: Wordings::new(&file, str::to_owned), file }
    }

    /// Reads a prompt file.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown or missing key, an empty list, or a text that lacks its placeholder.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(spag_io::Error::io(path))?;
        Self::parse(&bytes).map_err(|reason| Error::Prompts { path: path.to_owned(), reason })
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let file: PromptFile = serde_json::from_slice(bytes).map_err(|e| cause::<PromptFile>(bytes, "file", &e))?;
        check::check(&file)?;
        Ok(Self::new(file))
    }

    /// The prompt of a player's turn in the playing wording.
    pub fn playing_query(&self, history: &[Utterance], target_word: &str, max_turns: usize) -> String {
        let mut query = String::new();
        render::playing(&self.wordings, &scene(history, target_word, max_turns), &mut query);
        query
    }

    /// The prompt of a player's turn in a wording drawn from `rng`.
    pub fn training_query(
        &self,
        history: &[Utterance],
        target_word: &str,
        max_turns: usize,
        rng: &mut impl Rng,
    ) -> String {
        let mut query = String::new();
        render::training(&self.wordings, &scene(history, target_word, max_turns), rng, &mut query);
        query
    }
}

fn scene<'a>(
    history: &'a [Utterance],
    target_word: &'a str,
    max_turns: usize,
) -> Scene<'a, impl Iterator<Item = (Role, &'a str)> + Clone> {
    let role = next_role(history);
    Scene { history: history.iter().map(|u| (u.role, u.content.as_str())), role, target_word, max_turns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_file_passes_every_check() {
        let set = PromptSet::parse(EMBEDDED.as_bytes()).unwrap();
        assert_eq!(set.file.rules.len(), 8);
        assert!(set.file.rules.iter().all(|text| text.contains("{max_turns}")));
    }
}
