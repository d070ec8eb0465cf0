//! Games of the TextArena package, as other programs played and recorded them.
//!
//! Their rules are not in this crate, so it reads them by their transcripts. `spag-selfplay` plays them.

use rand::RngCore;
use serde_json::{Map, Value};
use spag_io::{PromptFormat, TurnPrompt, quote};

use super::message::{Message, chat, view};
use super::shared::{DRAW, INVALID, ending, labels};
use crate::driver::GameSpec;
use crate::episode::{EpisodeView, GAME_NAME, GAME_OPTIONS};
use crate::error::{Error, Result};
use crate::game::{Game, Judge, Match};
use crate::labels::Labels;
use crate::seat::Seat;
use crate::transcript::Transcript;
use crate::verdict::Verdict;

ending!(
    /// A player has the larger reward.
    WON, "won", "won", "a player has the larger reward at the end"
);
labels!("textarena", "TextArena", Moves, [WON, DRAW, INVALID]);

/// What precedes an id of TextArena in the name of a game.
const PREFIX: &str = "textarena:";

/// A game of TextArena's registry: its name, options and form of prompts. It judges records and words their prompts.
#[derive(Clone, Debug)]
pub struct RecordedTextArena {
    name: String,
    options: Map<String, Value>,
    format: PromptFormat,
}

impl RecordedTextArena {
    /// The game of this name, `textarena:ID`; `None` for names of other games.
    ///
    /// # Errors
    /// The name has no id.
    pub fn new(name: &str, options: &Map<String, Value>, format: PromptFormat) -> Result<Option<Self>> {
        let Some(id) = name.strip_prefix(PREFIX) else { return Ok(None) };
        if id.is_empty() || id.contains(char::is_control) {
            let hint = "it needs an id of TextArena's registry, for example textarena:TicTacToe-v0".to_owned();
            return Err(Error::UnknownGame { name: quote(name), hint });
        }
        Ok(Some(Self { name: name.to_owned(), options: options.clone(), format }))
    }

    /// `textarena:ID`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options: arguments of the game's constructor.
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }

    /// The form of prompts.
    pub fn format(&self) -> PromptFormat {
        self.format
    }

    /// A player's prompt of the messages to it.
    pub fn prompt(&self, messages: &[Message], seat: Seat) -> TurnPrompt {
        match self.format {
            PromptFormat::Plain => view(messages, seat),
            PromptFormat::Chat => chat(messages, seat),
        }
    }
}

/// The names of the game, if `name` is `textarena:ID`.
pub(super) fn labels_of(name: &str) -> Option<&'static Labels> {
    name.starts_with(PREFIX).then_some(&LABELS)
}

impl Game for RecordedTextArena {
    fn labels(&self) -> &'static Labels {
        &LABELS
    }

    fn settings(&self) -> Map<String, Value> {
        self.options.clone()
    }

    fn record_keys(&self) -> Map<String, Value> {
        let mut keys = Map::from_iter([(GAME_NAME.to_owned(), self.name.clone().into())]);
        if !self.options.is_empty() {
            keys.insert(GAME_OPTIONS.into(), self.options.clone().into());
        }
        keys
    }

    fn start(&self, _: &GameSpec) -> Result<Box<dyn Match + '_>> {
        Err(Error::PlayedElsewhere { game: self.name.clone() })
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(ByTranscript)
    }

    fn training_prompt(&self, episode: &EpisodeView<'_>, utterance: usize, _: &mut dyn RngCore) -> Result<TurnPrompt> {
        let messages = Transcript::of(episode)?.messages(episode, utterance, &LABELS)?;
        let seat = episode.history.get(utterance).map_or(Seat::FIRST, |said| said.role);
        Ok(self.prompt(&messages, seat))
    }
}

/// Judges by what TextArena decided.
#[derive(Debug)]
struct ByTranscript;

impl Judge for ByTranscript {
    fn judge(&mut self, episode: &EpisodeView<'_>) -> Result<Verdict> {
        Transcript::of(episode)?.verdict(&LABELS)
    }
}
