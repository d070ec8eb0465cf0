//! `[self_play]`: the games before each round of training, with the settings of `spag-play`.

use spag_game::AfterDecision;
use spag_model::ModelConfig;
use spag_model::dtype::DtypeChoice;
use spag_model::generate::{EngineSettings, Sampling};
use spag_selfplay::{EndpointSettings, LengthSettings, SamplingSettings, limits};

spag_io::settings! {
    /// `[self_play]`: games before each round of training.
    pub table SelfPlaySettings {
        /// Games per epoch; words are cycled. One on each word if absent.
        pub games: Option<usize> [limits::GAMES];
        /// Servers of the current model that play instead of an engine here, as on command lines:
        /// `openai-completions:URL,URL#{stage}`, in which `{stage}` is the model's name: im, spag-1 … `min_new_tokens` and
        /// `max_length` are then those of the servers, and `top_k` too where they are not known to accept it.
        pub player: Option<String>;
        /// A command with its arguments that rank 0 runs before the servers play, to start or reload them; the environment
        /// variables SPAG_MODEL_NAME and SPAG_MODEL_DIR name the model. It returns when they are ready.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub prepare: Vec<String>;
        /// Maximum tokens of a prompt, which loses its beginning; what an utterance leaves of the context if absent.
        pub max_length: Option<usize> [limits::LENGTH];
        /// Play on as the reference does until the defender says "I know the word" or the turns are over.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub play_on: bool;
        /// Record the tokens of each utterance with their log-probabilities, as `--record_tokens` of `spag-play`.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub record_tokens: bool;
        /// Hold models and `player` to the actions that a game lists, as `--constrain_actions` of `spag-play`: in these games, in those
        /// of the source `self` and in those of the evaluation.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub constrain_actions: bool;
        /// Consecutive failed games that stop the run.
        #[serde(skip_serializing_if = "is_default_failed")]
        pub max_failed_in_a_row: usize [limits::FAILED_IN_A_ROW] = FAILED_IN_A_ROW;
        /// Number format of the weights: `auto`, `f32` or `bf16`.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub dtype: DtypeChoice;
    } + {
        /// Requests to servers that play.
        pub requests: EndpointSettings;
        /// How tokens are drawn; from the 50 most likely ones by default, as in the reference.
        pub sampling: SamplingSettings = SamplingSettings {
            top_k: Some(Sampling::REFERENCE_TOP_K), ..SamplingSettings::default()
        };
        /// Tokens of an utterance.
        pub length: LengthSettings;
        /// Limits of engines, also in evaluation.
        pub engine: EngineSettings = EngineSettings { max_running: Some(GAMES_IN_FLIGHT), ..EngineSettings::default() };
    }
}

const FAILED_IN_A_ROW: usize = 10;
const GAMES_IN_FLIGHT: usize = 64;

fn is_default_failed(value: &usize) -> bool {
    *value == FAILED_IN_A_ROW
}

impl SelfPlaySettings {
    /// Games that are played concurrently, by whatever players.
    pub fn games_in_flight(&self) -> usize {
        self.engine.max_running.unwrap_or(GAMES_IN_FLIGHT)
    }

    /// Tokens of a prompt with an utterance of `max_new_tokens`, at most.
    pub fn max_length_for(&self, model: &ModelConfig, max_new_tokens: usize) -> usize {
        let positions = model.architecture.max_position_embeddings;
        self.max_length.map_or(positions, |prompt| prompt.saturating_add(max_new_tokens).min(positions))
    }

    /// What happens once a game is decided.
    pub fn after_decision(&self) -> AfterDecision {
        if self.play_on { AfterDecision::UntilGuess } else { AfterDecision::Stop }
    }
}
