//! What the programs share: flags, errors and exit codes, progress bars, players.
//!
//! A program parses its flags with [`flags`], runs under [`exit::run`], and prints through [`exit::say`] and
//! [`exit::note`]. Errors are printed as `error: …` with their causes. The exit code is 0 for success, 2 for an invalid
//! command line or input, 130 or 143 after SIGINT or SIGTERM, and 1 for every other failure.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     spag_cli::exit::run(|| spag_cli::exit::say("done"))
//! }
//! ```

#[cfg(feature = "models")]
pub mod adapter_args;
#[cfg(feature = "models")]
mod device_args;
mod error;
pub mod exit;
mod fit;
pub mod flags;
#[cfg(feature = "models")]
mod game_args;
mod overwrite;
#[cfg(feature = "models")]
mod players;
mod progress;
pub mod prompts;
mod reasoning;
mod recorded_game;
#[cfg(feature = "models")]
mod sampling;
mod signal;
#[cfg(feature = "models")]
pub mod threads;

#[cfg(feature = "models")]
pub use adapter_args::AdapterArgs;
#[cfg(feature = "models")]
pub use device_args::{BosArgs, DeviceArgs, LoadArgs};
pub use error::{Error, Result};
#[cfg(feature = "models")]
pub use game_args::GameArgs;
pub use overwrite::OverwriteArgs;
#[cfg(feature = "models")]
pub use players::{PlayerArgs, PlayerParser, checkpoint_files, write_games};
pub use progress::{LineEvery, TerminalProgress};
pub use prompts::PromptArgs;
pub use reasoning::SampleReasoningArgs;
pub use recorded_game::RecordedGameArgs;
#[cfg(feature = "models")]
pub use sampling::{SamplingArgs, TaskType, TokenSource, fit_max_length};
#[cfg(feature = "models")]
pub use spag_chat::{ReasoningSettings, TemplateSettings};
pub use spag_io::Signal;
