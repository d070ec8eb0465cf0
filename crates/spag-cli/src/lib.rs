//! The programs, as library functions, and what they share.
//!
//! Each program of `bins/` is one call of [`assign_rewards::main`], [`play::main`], [`train::main`] or [`spag::main`].
//! They take the reference's flags in snake_case or kebab-case, print errors as `error: …` with their causes, and exit
//! with 0 for success, 2 for a command line or an input that cannot be used, 130 or 143 after SIGINT or SIGTERM, and 1
//! for any other failure. `spag launch` ends with the code of the rank that failed first.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     spag_cli::assign_rewards::main()
//! }
//! ```

mod context;
mod device_args;
mod engine_args;
mod error;
mod exit;
mod exit_code;
mod flags;
mod launch;
mod players;
mod playing;
mod programs;
mod progress;
mod prompts;
mod sampling;
mod signal;

pub use error::{Error, Result};
pub use programs::{assign_rewards, play, spag, train};
pub use signal::Signal;
