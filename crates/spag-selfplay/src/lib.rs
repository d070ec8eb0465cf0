//! Players that are models or endpoints, and what a pile of games says.
//!
//! A [`ModelPlayer`] is a checkpoint of this machine; an [`EndpointPlayer`] is any server that speaks the OpenAI
//! protocol. On command lines both are a [`PlayerSpec`]:
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
mod endpoint;
mod fingerprint;
mod model_player;
mod player_spec;

// ── Whole runs ──
mod job;
mod shared_games;

// ── What games say ──
pub mod arena;
mod ending;
mod stats;
mod summary;
mod timing;

pub use ending::{Ending, ending};
pub use endpoint::{ApiKey, EndpointConfig, EndpointPlayer, EndpointStats, RetryConfig};
pub use error::{Error, Result};
pub use fingerprint::checkpoint_fingerprint;
pub use job::{Finished, JobWatcher, OpenJob, PlayJob, Played, PlayerWork, Rank, RunFiles, RunStats, SoFar};
pub use model_player::{ModelPlayer, Room};
pub use player_spec::{EndpointSpec, PlayerSpec, PromptStyle};
pub use shared_games::play_shared;
pub use stats::{Change, Rate};
pub use summary::{EndingCount, GamesSummary, GamesTally, SpeechSummary};
pub use timing::{Timing, TimingConfig, time_play};
