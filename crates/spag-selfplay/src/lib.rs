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
//! assert_eq!((spec.base_url.as_str(), spec.model.as_str()), ("http://localhost:8000/v1", "llama-2-7b"));
//! assert_eq!(spec.style, PromptStyle::Chat);
//! assert!(matches!("runs/tiny/im/model".parse()?, PlayerSpec::Model(_)));
//! # Ok(())
//! # }
//! ```

mod error;

// ── Players ──
mod digest;
mod endpoint;
mod model_player;
mod player_spec;

// ── Runs ──
mod job;
pub mod limits;
mod shared_games;
mod timing;

// ── Statistics of games ──
pub mod arena;
mod counts;
mod ending;
mod game_stats;
mod rate;
mod text_table;

pub use counts::GameCounts;
pub use digest::{checkpoint_fingerprint, content_digest};
pub use ending::{Ending, ending};
pub use endpoint::{ApiKey, EndpointConfig, EndpointKeys, EndpointPlayer, EndpointStats, PromptStyle, RetryConfig};
pub use error::{Error, Result};
pub use game_stats::GameStats;
pub use job::{Finished, JobObserver, OpenJob, PlayJob, Played, PlayerWork, RunFiles, RunStats, SoFar, game_specs};
pub use model_player::{ContextBudget, ModelPlayer};
pub use player_spec::{EndpointSpec, PlayerSpec};
pub use rate::{Change, Rate};
pub use shared_games::play_shared;
pub use text_table::text_table;
pub use timing::{Timing, TimingConfig, time_play};
