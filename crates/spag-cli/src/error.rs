//! What can go wrong in a program, and the exit code it ends with.

use std::path::PathBuf;

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a program stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line does not fit the program; also how clap hands out `--help`.
    #[error(transparent)]
    Flags(clap::Error),
    /// A flag that nobody knows.
    #[error("unknown flag {flag}{}", nearest.as_ref().map(|name| format!("; the nearest known one is {name}")).unwrap_or_default())]
    UnknownFlag {
        /// The flag as it was given.
        flag: String,
        /// The known flag most like it.
        nearest: Option<String>,
    },
    /// A known flag asks for something that is not done here.
    #[error("{flag} is not supported: {why}{}", instead.as_ref().map(|value| format!(" (only {value})")).unwrap_or_default())]
    Unsupported {
        /// The flag with its value.
        flag: String,
        /// Why it cannot be, or what to do instead.
        why: String,
        /// The values that would do.
        instead: Option<String>,
    },
    /// A flag stands without its value.
    #[error("{flag} needs a value")]
    NoValue {
        /// The flag.
        flag: String,
    },
    /// A flag's value cannot be used, for a reason that shows only after parsing.
    #[error("{flag}: {problem}")]
    BadValue {
        /// The flag with its value.
        flag: String,
        /// What is wrong with it, and what would do.
        problem: String,
    },
    /// A file or folder could not be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Whoever read our standard output has gone away.
    #[error("standard output")]
    Stdout(#[source] std::io::Error),
    /// Several processes were started, and this build works in one.
    #[error(
        "{launcher} started {size} processes, but this build {does} in one process; start a single one, without the launcher"
    )]
    ManyProcesses {
        /// Who started them.
        launcher: &'static str,
        /// How many.
        size: usize,
        /// What the program does: "trains", "plays".
        does: &'static str,
    },
    /// The launcher's environment is broken.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),
    /// From the game: episodes, words, wordings, players.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// From credit assignment and the converters.
    #[error(transparent)]
    Rewards(#[from] spag_rewards::Error),
    /// From a model, its tokenizer, or generation.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
    /// From training.
    #[error(transparent)]
    Train(#[from] spag_train::Error),
    /// From players that are models or endpoints.
    #[error(transparent)]
    SelfPlay(#[from] spag_selfplay::Error),
    /// From the loop.
    #[error(transparent)]
    Pipeline(#[from] spag_pipeline::Error),
}
