//! `[self_play]`: the games before each round of training, with the settings of `spag-play`.

use serde::{Deserialize, Serialize};
use spag_game::AfterDecision;
use spag_model::{DtypeChoice, EngineSettings, PrefixSharing, Sampling};

/// `[self_play]`: games before each round of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelfPlaySettings {
    /// Games per epoch; words are cycled. One on each word if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub games: Option<usize>,
    /// Servers of the current model that play instead of an engine here, as on command lines:
    /// `openai-completions:URL,URL#{stage}`, in which `{stage}` is the model's name: im, spag-1 … `top_k`, `min_new_tokens` and
    /// `max_length` are then those of the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub player: Option<String>,
    /// A command with its arguments that rank 0 runs before the servers play, to start or reload them; the environment
    /// variables SPAG_MODEL_NAME and SPAG_MODEL_DIR name the model. It returns when they are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Maximum number of concurrent requests to a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_in_flight: Option<usize>,
    /// Rate limit of a server: requests per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<f64>,
    /// Timeout in seconds of one attempt of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<f64>,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Tokens are drawn from the `top_k` most likely ones, 50 as in the reference; 0 means all.
    pub top_k: usize,
    /// Tokens are drawn from the smallest set of most likely ones whose probabilities sum to `top_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Maximum tokens of a prompt, which loses its beginning; what an utterance leaves of the context if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Maximum tokens of an utterance.
    pub max_new_tokens: usize,
    /// Minimum tokens of an utterance. 1 excludes empty ones.
    pub min_new_tokens: usize,
    /// Play on as the reference does until the defender says "I know the word" or the turns are over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub play_on: bool,
    /// Record the tokens of each utterance with their log-probabilities, as `--record_tokens` of `spag-play`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub record_tokens: bool,
    /// Consecutive failed games that stop the run.
    #[serde(skip_serializing_if = "is_default_failed")]
    pub max_failed_in_a_row: usize,
    /// Games in flight, also in evaluation (`--per_device_eval_batch_size` of `spag-play`). More is faster but takes more
    /// memory.
    pub games_in_flight: usize,
    /// GiB of the KV cache of a model; what the games in flight need if absent, at most half of the free memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_gib: Option<f64>,
    /// Tokens of a page of the KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// Maximum prompt tokens of a forward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_step_tokens: Option<usize>,
    /// Whether games share the KV cache of common prefixes.
    #[serde(skip_serializing_if = "is_true")]
    pub prefix_sharing: bool,
    /// Number format of the weights: `auto`, `f32` or `bf16`.
    #[serde(with = "dtype", skip_serializing_if = "DtypeChoice::is_auto")]
    pub dtype: DtypeChoice,
}

const FAILED_IN_A_ROW: usize = 10;

fn is_default_failed(value: &usize) -> bool {
    *value == FAILED_IN_A_ROW
}

fn is_true(value: &bool) -> bool {
    *value
}

impl Default for SelfPlaySettings {
    fn default() -> Self {
        Self {
            games: None,
            player: None,
            prepare: Vec::new(),
            requests_in_flight: None,
            requests_per_minute: None,
            request_timeout: None,
            temperature: 1.2,
            top_k: Sampling::REFERENCE_TOP_K,
            top_p: None,
            max_length: None,
            max_new_tokens: 256,
            min_new_tokens: 1,
            play_on: false,
            record_tokens: false,
            max_failed_in_a_row: FAILED_IN_A_ROW,
            games_in_flight: 64,
            kv_cache_gib: None,
            page_size: None,
            max_step_tokens: None,
            prefix_sharing: true,
            dtype: DtypeChoice::Auto,
        }
    }
}

impl SelfPlaySettings {
    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        sampling(self.temperature, self.top_k, self.top_p)
    }

    /// What happens once a game is decided.
    pub fn after_decision(&self) -> AfterDecision {
        if self.play_on { AfterDecision::UntilGuess } else { AfterDecision::Stop }
    }

    /// The limits of engines.
    pub fn engine(&self) -> EngineSettings {
        EngineSettings {
            max_running: Some(self.games_in_flight),
            kv_cache_gib: self.kv_cache_gib,
            page_size: self.page_size,
            max_step_tokens: self.max_step_tokens,
            prefix_sharing: if self.prefix_sharing { PrefixSharing::On } else { PrefixSharing::Off },
        }
    }
}

/// Random at a temperature, or greedy at 0.
pub(super) fn sampling(temperature: f64, top_k: usize, top_p: Option<f64>) -> Sampling {
    if temperature > 0.0 { Sampling::random(temperature, top_k, top_p) } else { Sampling::Greedy }
}

/// A number format as text.
pub(super) mod dtype {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use spag_model::DtypeChoice;

    pub(in crate::config) fn serialize<S: Serializer>(choice: &DtypeChoice, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(choice)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DtypeChoice, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
