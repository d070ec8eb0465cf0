//! Games of the TextArena package, as other programs played and recorded them.
//!
//! Their rules are not in this crate, so it reads them by their transcripts. `spag-selfplay` plays them.

use rand::RngCore;
use serde_json::{Map, Value};
use spag_io::{PromptFormat, TurnPrompt, quote};

use super::declare::{ending, labels};
use crate::ending::{DRAW, INVALID};
use crate::episode::{EpisodeView, GAME_NAME, GAME_OPTIONS};
use crate::error::{Error, Result};
use crate::game::{Game, Judge, Match};
use crate::labels::Labels;
use crate::message::{Message, prompt_of};
use crate::seat::Seat;
use crate::spec::GameSpec;
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
        prompt_of(messages, seat, self.format)
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
        let speaker = |at: usize| episode.history.get(at).map(|said| said.seat);
        let told = &transcript(episode)?.told;
        let seat = speaker(utterance).ok_or(Error::Ended { utterances: episode.history.len() })?;
        // The player has been told everything before its utterances up to this one.
        let own = told.iter().take(utterance + 1).enumerate().filter(|(at, _)| speaker(*at) == Some(seat));
        let messages = own.flat_map(|(_, told)| told).map(|told| told.message(seat, LABELS.seats));
        Ok(self.prompt(&messages.collect::<Vec<_>>(), seat))
    }
}

/// The transcript of an episode with one list of messages for each utterance.
fn transcript<'a>(episode: &'a EpisodeView<'_>) -> Result<&'a Transcript> {
    let transcript = episode.transcript.as_ref().ok_or(Error::Transcript { reason: "is missing or malformed" })?;
    if transcript.told.len() != episode.history.len() {
        return Err(Error::Transcript { reason: "has not one list of messages for each utterance" });
    }
    Ok(transcript)
}

/// Judges by what TextArena decided.
#[derive(Debug)]
struct ByTranscript;

impl Judge for ByTranscript {
    fn judge(&mut self, episode: &EpisodeView<'_>) -> Result<Verdict> {
        transcript(episode)?.verdict(&LABELS)
    }
}
