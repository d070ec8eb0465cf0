//! `[self_play]`: the games before each round of training, with the settings of `spag-play`.

use serde::{Deserialize, Deserializer, Serialize};
use spag_game::AfterDecision;
use spag_io::Range as _;
use spag_model::{DtypeChoice, EngineSettings, Sampling};
use spag_selfplay::limits::{FailedInARow, Games, Length};
use spag_selfplay::{EndpointSettings, LengthSettings, SamplingSettings};

use super::flat::{self, Part};

/// `[self_play]`: games before each round of training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfPlaySettings {
    /// Who plays how many games.
    #[serde(flatten)]
    pub play: SelfPlayGames,
    /// Requests to servers that play.
    #[serde(flatten)]
    pub requests: EndpointSettings,
    /// How tokens are drawn; `top_k` is 50 by default, as in the reference.
    #[serde(flatten)]
    pub sampling: SamplingSettings,
    /// Tokens of an utterance.
    #[serde(flatten)]
    pub length: LengthSettings,
    /// Limits of engines, also in evaluation.
    #[serde(flatten)]
    pub engine: EngineSettings,
}

/// The games of self-play and who plays them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelfPlayGames {
    /// Games per epoch; words are cycled. One on each word if absent.
    #[serde(deserialize_with = "Games::read")]
    pub games: Option<usize>,
    /// Servers of the current model that play instead of an engine here, as on command lines:
    /// `openai-completions:URL,URL#{stage}`, in which `{stage}` is the model's name: im, spag-1 … `top_k`, `min_new_tokens` and
    /// `max_length` are then those of the servers.
    pub player: Option<String>,
    /// A command with its arguments that rank 0 runs before the servers play, to start or reload them; the environment
    /// variables SPAG_MODEL_NAME and SPAG_MODEL_DIR name the model. It returns when they are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Maximum tokens of a prompt, which loses its beginning; what an utterance leaves of the context if absent.
    #[serde(deserialize_with = "Length::read")]
    pub max_length: Option<usize>,
    /// Play on as the reference does until the defender says "I know the word" or the turns are over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub play_on: bool,
    /// Record the tokens of each utterance with their log-probabilities, as `--record_tokens` of `spag-play`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub record_tokens: bool,
    /// Consecutive failed games that stop the run.
    #[serde(deserialize_with = "FailedInARow::read", skip_serializing_if = "is_default_failed")]
    pub max_failed_in_a_row: usize,
    /// Number format of the weights: `auto`, `f32` or `bf16`.
    #[serde(skip_serializing_if = "DtypeChoice::is_auto")]
    pub dtype: DtypeChoice,
}

const FAILED_IN_A_ROW: usize = 10;
const GAMES_IN_FLIGHT: usize = 64;

fn is_default_failed(value: &usize) -> bool {
    *value == FAILED_IN_A_ROW
}

impl Default for SelfPlayGames {
    fn default() -> Self {
        Self {
            games: None,
            player: None,
            prepare: Vec::new(),
            max_length: None,
            play_on: false,
            record_tokens: false,
            max_failed_in_a_row: FAILED_IN_A_ROW,
            dtype: DtypeChoice::Auto,
        }
    }
}

impl Default for SelfPlaySettings {
    fn default() -> Self {
        Self {
            play: SelfPlayGames::default(),
            requests: EndpointSettings::default(),
            sampling: SamplingSettings { top_k: Some(Sampling::REFERENCE_TOP_K), ..SamplingSettings::default() },
            length: LengthSettings::default(),
            engine: EngineSettings { max_running: Some(GAMES_IN_FLIGHT), ..EngineSettings::default() },
        }
    }
}

impl<'de> Deserialize<'de> for SelfPlaySettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = [
            Part::new::<SelfPlayGames>(),
            Part::new::<EndpointSettings>(),
            Part::new::<SamplingSettings>(),
            Part::new::<LengthSettings>(),
            Part::new::<EngineSettings>(),
        ];
        let [play, requests, sampling, length, engine] = flat::read(deserializer, parts)?;
        Ok(Self {
            play: play.finish()?,
            requests: requests.finish()?,
            sampling: sampling.finish()?,
            length: length.finish()?,
            engine: engine.finish()?,
        })
    }
}

impl SelfPlaySettings {
    /// Games that are played concurrently, by whatever players.
    pub fn games_in_flight(&self) -> usize {
        self.engine.max_running.unwrap_or(GAMES_IN_FLIGHT)
    }
}

impl SelfPlayGames {
    /// What happens once a game is decided.
    pub fn after_decision(&self) -> AfterDecision {
        if self.play_on { AfterDecision::UntilGuess } else { AfterDecision::Stop }
    }
}
