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

mod device_args;
mod engine_args;
mod error;
pub mod exit;
pub mod flags;
mod launch;
mod players;
mod progress;
pub mod prompts;
mod sampling;
mod signal;

pub use device_args::{DeviceArgs, LoadArgs};
pub use engine_args::EngineArgs;
pub use error::{Error, Result};
pub use launch::require_single_process;
pub use players::{AnyPlayer, PlayerArgs};
pub use progress::{LineEvery, TerminalProgress};
pub use sampling::{SamplingArgs, TaskType, fit_max_length};
pub use signal::Signal;
