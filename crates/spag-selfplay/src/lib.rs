//! Players that are models or endpoints, runs of self-play, and statistics of games.
//!
//! A [`ModelPlayer`] is a checkpoint; an [`EndpointPlayer`] is a server with the OpenAI protocol. On command lines both are
//! a [`PlayerSpec`]:
//!
//! ```
//! use spag_selfplay::{PlayerSpec, PromptStyle};
//!
//! # fn main() -> spag_selfplay::Result<()> {
//! let PlayerSpec::Endpoint(spec) = "openai:http://localhost:8000/v1#llama-2-7b".parse()? else { panic!() };
//! assert_eq!((spec.servers.urls(), spec.model.as_str()), (&["http://localhost:8000/v1".to_owned()][..], "llama-2-7b"));
//! assert_eq!(spec.style, PromptStyle::Chat);
//! assert!(matches!("runs/tiny/im/model".parse()?, PlayerSpec::Model(_)));
//! # Ok(())
//! # }
//! ```

mod error;

// ── Players ──
mod action_scores;
mod digest;
mod endpoint;
mod game_meter;
mod held_actions;
mod kuhn_meter;
mod meter_table;
mod mix;
mod model_player;
mod own_tokens;
mod player_spec;
mod players;
mod servers;
mod settings;
mod shared_engine;
mod solved_meter;

// ── Runs ──
mod job;
pub mod limits;
mod shared_games;
mod textarena;
mod timing;
mod utterance_settings;

// ── Statistics of games ──
pub mod arena;
mod game_stats;
mod rate;
mod refusals;
mod score;
mod text_table;

pub use digest::{adapter_fingerprint, checkpoint_fingerprint, content_digest};
pub use endpoint::{
    ApiKey, EndpointAsker, EndpointConfig, EndpointKeys, EndpointPlayer, EndpointSpec, EndpointStats, EndpointTurn,
    NoUtterance, PromptStyle, RetryConfig, TopK,
};
pub use error::{Error, Result};
pub use game_meter::GameMeter;
pub use game_stats::{GameStats, ReasoningStats, SpeechStats};
pub use job::{
    Finished, JobFiles, JobObserver, OpenJob, PlayJob, Played, PlayerWork, Ranks, RunStats, SoFar, game_specs,
    games_on_cycled_words, games_per_word,
};
pub use kuhn_meter::KuhnMeter;
pub use meter_table::MeterTable;
pub use mix::GameShare;
pub use model_player::{ContextBudget, ModelPlayer};
pub use player_spec::PlayerSpec;
pub use players::{AnyPlayer, PlayerPair};
pub use rate::{Change, Rate};
pub use refusals::Refusals;
pub use score::Score;
pub use servers::Servers;
pub use settings::{EndpointSettings, GameSettings, LengthSettings, SamplingSettings};
pub use shared_engine::SharedEngine;
pub use solved_meter::{MeterSize, SeatResults, SolvedMeter};
pub use text_table::{number_or_dash, signed, text_table};
pub use textarena::{PythonSettings, TextArena};
pub use timing::{Timing, TimingConfig, time_play};
pub use utterance_settings::{ReasoningStart, UtteranceSettings};
