//! What can go wrong in a program, and the exit code it ends with.

use std::path::PathBuf;

use crate::signal::Signal;

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
    /// A model that cannot hold the rules of the game and an utterance.
    #[error(
        "{}: the {role}'s first prompt with the word {word:?} has {} tokens and an utterance up to {}, but the model \
         has room for {} in all (--max_length, or its max_position_embeddings); take a model with a longer context, \
         shorter wordings (--prompts), or fewer --max_new_tokens", folder.display(), budget.prompt, budget.utterance, budget.length
    )]
    ContextTooShort {
        /// The model.
        folder: PathBuf,
        /// Whose prompt it is.
        role: spag_game::Role,
        /// The longest of the target words.
        word: String,
        /// What is needed, and what there is.
        budget: spag_selfplay::ContextBudget,
    },
    /// Games are missing in the results: their players had no utterance.
    #[error(
        "{missing} of {total} games failed ({} says why); the same command plays them again and nothing else",
        why.display()
    )]
    GamesFailed {
        /// How many.
        missing: usize,
        /// Of how many.
        total: usize,
        /// Where the reasons stand.
        why: PathBuf,
    },
    /// A signal ended the program early.
    #[error("{message}")]
    Stopped {
        /// The signal, which gives the exit code.
        signal: Signal,
        /// What was done until then and how to continue.
        message: String,
    },
    /// An error with an exit code of its own.
    #[error("{source}")]
    Exit {
        /// The exit code.
        code: u8,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system does not let a program listen to signals.
    #[error("signals cannot be listened to")]
    Signals(#[source] std::io::Error),
    /// The launcher's environment is broken.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),
    /// From the game: episodes, words, wordings, players.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
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
