//! Prompts: the game put into words for a model, in one wording for playing and many for training.

mod file;
mod render;
mod template;

use std::path::Path;
use std::sync::Arc;

use rand::Rng;
use spag_io::{PromptFormat, TurnPrompt, Wordings, cause};

use crate::completion::UtteranceRule;
use crate::episode::{EpisodeView, Utterance, UtteranceView};
use crate::error::{Error, Result};
use file::{Chat, PromptFile};
use render::Turn;

/// All wordings of a prompt file.
///
/// The default is the embedded `data/prompts.json`, which shows every key. The flag `--prompts FILE` replaces it.
/// A prompt is a concatenation of parts: blanks and line breaks come from the file.
///
/// | Key | Meaning |
/// |---|---|
/// | `rules` | texts with `{max_turns}`; playing uses the first, training draws one |
/// | `playing.beginning` | after the rules, if the history is empty |
/// | `playing.history`, `.entry` | otherwise: the header, and each utterance with `{role}` and `{content}` |
/// | `playing.instruction` | the end: `attacker` with `{target_word}`, and `defender` |
/// | `chat.instruction` | the same as the end of the system message, after the rules; the built-in one if `chat` is absent |
/// | `chat.opening` | the user message before the attacker's first utterance |
/// | `utterances` | `as-decoded` (default) or `trimmed`: how a completion becomes an utterance, see [`UtteranceRule`] |
/// | `training.playing_share` | probability of the playing wording; 0 by default |
/// | `training.layouts` | weights of `chat`, `chat_inverse` and `alpaca` |
/// | `training.dialogue_prefixes` | texts before names |
/// | `training.names` | pairs: the player to move, the other; `{self}` and `{other}` are their roles |
/// | `training.system_names` | names of the section with the rules |
/// | `training.after_name` | text after every name |
/// | `training.before_instruction` | between rules and instruction in the chat layouts |
/// | `training.beginning` | if the history is empty: after the instruction (chat), after the rules (alpaca) |
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
///
/// With [`PromptFormat::Chat`], a game is messages, in training as in playing: the first rules and `chat.instruction` from the
/// system; `chat.opening` from the user, for the attacker; the opponent's utterances from the user, the player's own from the
/// assistant.
///
/// ```
/// use spag_game::{PromptSet, taboo, Utterance};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("prompts.json");
/// # let embedded = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/prompts.json"))?;
/// # std::fs::write(&path, embedded.replace("\\n  - {role}: {content}", "\\n* {role} says: {content}"))?;
/// // A copy of data/prompts.json in which `playing.entry` is "\n* {role} says: {content}".
/// let prompts = PromptSet::load(&path)?;
/// let history = [Utterance::new(taboo::ATTACKER, "Do you drink it?")];
/// assert!(prompts.playing_query(&history, "tea", 5).contains("\n* attacker says: Do you drink it?"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PromptSet {
    file: Arc<PromptFile>,
    wordings: Wordings,
}

/// The most bytes of a prompt file.
const MAX_BYTES: u64 = 1 << 24;

const EMBEDDED: &str = include_str!("../../../../data/prompts.json");

fn wordings(file: &str, bytes: &[u8]) -> Wordings {
    Wordings { file: file.to_owned(), sha256: spag_io::sha256(bytes), format: PromptFormat::Plain }
}

/// The chat of the embedded file, for files without one.
fn built_in_chat() -> Chat {
    /// The part of the embedded file that is read, which has to have it.
    #[derive(Default, serde::Deserialize)]
    struct Embedded {
        chat: Chat,
    }
    serde_json::from_str::<Embedded>(EMBEDDED).unwrap_or_default().chat
}

fn parse(bytes: &[u8]) -> std::result::Result<PromptFile, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let file: PromptFile = serde_json::from_slice(bytes).map_err(|e| cause::<PromptFile>(bytes, "file", &e))?;
    file.check()?;
    Ok(file)
}

impl Default for PromptSet {
    fn default() -> Self {
        // A test checks the embedded file.
        Self {
            file: Arc::new(serde_json::from_str(EMBEDDED).unwrap_or_default()),
            wordings: wordings("built-in", EMBEDDED.as_bytes()),
        }
    }
}

impl PromptSet {
    /// Reads a prompt file.
    ///
    /// # Errors
    /// The file cannot be read, a key is unknown or missing, a list is empty, or a text lacks a placeholder.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = spag_io::read_whole(path, MAX_BYTES)?;
        let file = parse(&bytes).map_err(|reason| Error::Prompts { path: path.to_owned(), reason })?;
        Ok(Self { file: Arc::new(file), wordings: wordings(&path.to_string_lossy(), &bytes) })
    }

    /// The path and the digest of the file, for records of what was made with it.
    pub fn wordings(&self) -> &Wordings {
        &self.wordings
    }

    /// The same wordings in a format.
    pub fn with_format(self, format: PromptFormat) -> Self {
        Self { wordings: Wordings { format, ..self.wordings }, ..self }
    }

    /// The format of prompts.
    pub fn format(&self) -> PromptFormat {
        self.wordings.format
    }

    /// How a model's completion of a playing prompt becomes an utterance.
    pub fn utterance_rule(&self) -> UtteranceRule {
        match self.format() {
            PromptFormat::Plain => self.file.utterances,
            PromptFormat::Chat => UtteranceRule::Message,
        }
    }

    /// The prompt of the player to move.
    pub fn playing_prompt(&self, history: &[Utterance], target_word: &str, max_turns: usize) -> TurnPrompt {
        let history: Vec<_> = history.iter().map(UtteranceView::from).collect();
        let turn = Turn::new(&history, target_word, max_turns);
        match self.format() {
            PromptFormat::Plain => TurnPrompt::Plain(render::playing(&self.file, turn)),
            PromptFormat::Chat => TurnPrompt::Chat(render::chat(&self.file, turn)),
        }
    }

    /// The prompt for the utterance of an episode at a 0-based index, to train on: in a wording drawn from `rng`, or the
    /// messages of play.
    pub fn training_prompt_at(&self, episode: &EpisodeView<'_>, index: usize, rng: &mut impl Rng) -> TurnPrompt {
        let history = episode.history.get(..index).unwrap_or(&episode.history);
        let turn = Turn::new(history, &episode.item, episode.max_turns);
        match self.format() {
            PromptFormat::Plain => TurnPrompt::Plain(render::training(&self.file, turn, rng)),
            PromptFormat::Chat => TurnPrompt::Chat(render::chat(&self.file, turn)),
        }
    }

    /// The plain prompt of the player to move, in the playing wording.
    pub fn playing_query(&self, history: &[Utterance], target_word: &str, max_turns: usize) -> String {
        let history: Vec<_> = history.iter().map(UtteranceView::from).collect();
        render::playing(&self.file, Turn::new(&history, target_word, max_turns)).into_text()
    }

    /// The plain prompt of the player to move, in a wording drawn from `rng`.
    pub fn training_query(
        &self,
        history: &[Utterance],
        target_word: &str,
        max_turns: usize,
        rng: &mut impl Rng,
    ) -> String {
        let history: Vec<_> = history.iter().map(UtteranceView::from).collect();
        render::training(&self.file, Turn::new(&history, target_word, max_turns), rng).into_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_file_passes_every_check() {
        let file = parse(EMBEDDED.as_bytes()).unwrap();
        assert_eq!((file.rules.len(), file.utterances), (8, UtteranceRule::AsDecoded));
        assert!(file.rules.iter().all(|text| text.placeholders().any(|name| name == "max_turns")));
        assert_eq!(file.chat.opening, built_in_chat().opening);
    }
}
