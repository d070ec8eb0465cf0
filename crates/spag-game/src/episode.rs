//! An episode: the record of one game, in the reference's file format.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::generation::Generation;
use crate::seat::Seat;
use crate::transcript::{TRANSCRIPT, Transcript};

/// One utterance of a game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utterance {
    /// The speaker.
    #[serde(rename = "role")]
    pub seat: Seat,
    /// The text, unchanged.
    pub content: String,
    /// What the speaker thought before, which no other player sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// How the reasoning ended, if not by the speaker's closing tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_end: Option<ReasoningEnd>,
    /// The tokens that a model generated, if they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// All other keys of the object, kept on a round trip.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How reasoning ended that the player did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEnd {
    /// Its budget was used up, and the engine wrote the closing tag.
    Forced,
    /// The completion ended within it or with it, so that nothing was said.
    Unfinished,
}

impl Utterance {
    /// The key of `extra` that marks an utterance which its game refused.
    pub const REFUSAL: &str = REFUSAL;

    /// An utterance without other keys.
    pub fn new(seat: Seat, content: impl Into<String>) -> Self {
        Self {
            seat,
            content: content.into(),
            reasoning: None,
            reasoning_end: None,
            generation: None,
            extra: Map::new(),
        }
    }
}

/// One game. Made by [`play_games`](crate::play_games) or read from a file; read by judges and credit assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The utterances in the order of play.
    pub history: Vec<Utterance>,
    /// What the game is about, under the key that the reference has for it: in Adversarial Taboo, the target word.
    #[serde(rename = "target_word")]
    pub item: String,
    /// Turns after which an undecided game is tied. A turn is one utterance of each player.
    #[serde(default = "default_turns", deserialize_with = "turns")]
    pub max_turns: usize,
    /// All other keys of the object, kept on a round trip.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The key of the seed of a game's draws.
pub(crate) const SEED: &str = "seed";
/// The key of the seed of the utterances' draws, if it is another one.
pub(crate) const SAMPLING_SEED: &str = "sampling_seed";
/// The key of an utterance that was refused: the name of the [`Refusal`](crate::Refusal).
pub(crate) const REFUSAL: &str = "refusal";
/// The key of the name of a game.
pub(crate) const GAME_NAME: &str = "game_name";
/// The key of the options of a game, an object.
pub(crate) const GAME_OPTIONS: &str = "game_options";

fn default_turns() -> usize {
    Episode::TURNS
}

fn turns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(Episode::TURNS))
}

impl Episode {
    /// The turns of an episode that does not say how many it has: the paper's.
    pub const TURNS: usize = 5;

    /// The keys of `extra` that judging and crediting read.
    pub const KEYS_OF_JUDGES: [&str; 4] = [SEED, GAME_NAME, GAME_OPTIONS, TRANSCRIPT];

    /// A game without utterances.
    pub fn new(item: impl Into<String>, max_turns: usize) -> Self {
        Self { history: Vec::new(), item: item.into(), max_turns, extra: Map::new() }
    }

    /// The episode without its other keys, borrowed.
    pub fn view(&self) -> EpisodeView<'_> {
        EpisodeView {
            history: self.history.iter().map(UtteranceView::from).collect(),
            item: Cow::Borrowed(&self.item),
            max_turns: self.max_turns,
            seed: self.extra.get(SEED).and_then(Value::as_u64).unwrap_or_default(),
            game_name: self.extra.get(GAME_NAME).and_then(Value::as_str).map(str::to_owned),
            transcript: self.extra.get(TRANSCRIPT).and_then(|value| Transcript::deserialize(value).ok()),
            extra: IgnoredAny,
        }
    }

    /// The name and the options of the game that the episode names; `None` if it names none, as those of Adversarial Taboo.
    pub fn game(&self) -> Option<(&str, Map<String, Value>)> {
        let name = self.extra.get(GAME_NAME)?.as_str()?;
        let options = self.extra.get(GAME_OPTIONS).and_then(Value::as_object);
        Some((name, options.cloned().unwrap_or_default()))
    }

    /// Appends an utterance.
    pub fn push(&mut self, seat: Seat, content: impl Into<String>) {
        self.history.push(Utterance::new(seat, content));
    }
}

/// What judging and crediting need of an [`Utterance`], borrowed from it or from a row of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct UtteranceView<'a> {
    /// The speaker.
    #[serde(rename = "role")]
    pub seat: Seat,
    /// The text, unchanged.
    #[serde(borrow)]
    pub content: Cow<'a, str>,
    /// What the speaker thought before.
    #[serde(borrow, default)]
    pub reasoning: Option<Cow<'a, str>>,
    /// How the reasoning ended, if not by the speaker's closing tag.
    #[serde(default)]
    pub reasoning_end: Option<ReasoningEnd>,
    #[serde(flatten)]
    extra: IgnoredAny,
}

impl<'a> From<&'a Utterance> for UtteranceView<'a> {
    fn from(utterance: &'a Utterance) -> Self {
        let reasoning = utterance.reasoning.as_deref().map(Cow::Borrowed);
        let content = Cow::Borrowed(&*utterance.content);
        Self { seat: utterance.seat, content, reasoning, reasoning_end: utterance.reasoning_end, extra: IgnoredAny }
    }
}

/// What judging and crediting need of an [`Episode`], borrowed from it or from a row of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct EpisodeView<'a> {
    /// The utterances in the order of play.
    #[serde(borrow)]
    pub history: Vec<UtteranceView<'a>>,
    /// What the game is about.
    #[serde(borrow, rename = "target_word")]
    pub item: Cow<'a, str>,
    /// Turns after which an undecided game is tied.
    #[serde(default = "default_turns", deserialize_with = "turns")]
    pub max_turns: usize,
    /// The seed of the game's draws; 0 if the record has none.
    #[serde(default, deserialize_with = "seed")]
    pub seed: u64,
    /// The name of its game, if the record has one.
    #[serde(default, deserialize_with = "game_name")]
    pub game_name: Option<String>,
    /// What the game showed its players and how it ended, if the record has that.
    #[serde(default, deserialize_with = "transcript")]
    pub transcript: Option<Transcript>,
    #[serde(flatten)]
    extra: IgnoredAny,
}

/// Files of other programs may have anything under this key.
fn seed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_u64().unwrap_or_default())
}

fn game_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_str().map(str::to_owned))
}

fn transcript<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Transcript>, D::Error> {
    Ok(Transcript::deserialize(Value::deserialize(deserializer)?).ok())
}
