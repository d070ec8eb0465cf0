//! One error type for the whole crate; variants are named by cause.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};
use thiserror::Error;

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can stop a run, with where it happened and what to do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration names a setting that does not exist.
    #[error("{place}: unknown setting `{key}`{}", did_you_mean(.nearest, .known))]
    UnknownSetting {
        /// File and line, or the `--set` that was typed.
        place: String,
        /// The key as it was written.
        key: String,
        /// The known key that resembles it most.
        nearest: Option<String>,
        /// Every key known at that place.
        known: Vec<String>,
    },

    /// A configuration is no TOML, or a value has the wrong type.
    #[error("{place}: {message}")]
    Malformed {
        /// File and line, or the `--set` that was typed.
        place: String,
        /// What the parser said, with the offending line where there is one.
        message: String,
    },

    /// A configuration extends itself, directly or through others.
    #[error("{}: `extends` leads back to this file; remove one of the links", .path.display())]
    ExtendsItself {
        /// The file that was reached twice.
        path: PathBuf,
    },

    /// An override is not of the form `key=value`.
    #[error("--set {text}: an override is written key=value, for instance --set self_play.games=96")]
    BadOverride {
        /// What was typed.
        text: String,
    },

    /// A setting has a value that cannot be used.
    #[error("setting `{setting}`: {message}")]
    BadSetting {
        /// The dotted key.
        setting: &'static str,
        /// What is wrong with the value and what would be right.
        message: String,
    },

    /// A file or folder named by a setting is nowhere to be found.
    #[error(
        "setting `{setting}`: nothing found at {}; a relative path is looked up in the current directory, then beside the folder of the configuration file",
        listed(.tried)
    )]
    MissingInput {
        /// The dotted key.
        setting: &'static str,
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },

    /// The run folder was made with other settings.
    #[error(
        "{}: made with `{key}` = {was}, but it is now {now}; choose another run_dir (--set run_dir=…) or delete this one",
        .run_dir.display()
    )]
    RunDiffers {
        /// The run folder.
        run_dir: PathBuf,
        /// The first setting (or input) that differs.
        key: String,
        /// Its value when the folder was made.
        was: String,
        /// Its value now.
        now: String,
    },

    /// Another process works in the run folder.
    #[error("{}: process {holder} is running here; wait for it, or choose another run_dir", .run_dir.display())]
    RunLocked {
        /// The run folder.
        run_dir: PathBuf,
        /// The other process's id, as it wrote it.
        holder: String,
    },

    /// A file or folder could not be read or written.
    #[error("{}: could not {action}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// The operating system's reason.
        source: std::io::Error,
    },

    /// A file of the run folder does not hold what it should.
    #[error("{}: {message}; delete this file to have it made again", .path.display())]
    DamagedRun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },

    /// A stage has nothing to learn from: no game of it was won.
    #[error("stage {stage}: no game of {} was won, so there is nothing to learn from", .episodes.display())]
    NothingToLearn {
        /// The stage's name.
        stage: String,
        /// The games.
        episodes: PathBuf,
    },

    /// Games of a stage could not be played to their end.
    #[error("{}: {count} games could not be played to their end; {} says why; the same command plays them again",
        .path.display(), .failed.display())]
    GamesFailed {
        /// The games that were.
        path: PathBuf,
        /// Those that were not, with reasons.
        failed: PathBuf,
        /// How many were not.
        count: usize,
    },

    /// The tokenizer could not be trained.
    #[error("could not make the tokenizer: {message}")]
    Tokenizer {
        /// What the trainer said.
        message: String,
    },

    /// From the game: episodes, words, prompts, players.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),

    /// From credit assignment: samples.
    #[error(transparent)]
    Rewards(#[from] spag_rewards::Error),

    /// From the model: checkpoints, tokenizers, generation.
    #[error(transparent)]
    Model(#[from] spag_model::Error),

    /// From players, and from counting games.
    #[error(transparent)]
    SelfPlay(#[from] spag_selfplay::Error),

    /// Ranks that are lost, or were told something else.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),

    /// From training.
    #[error(transparent)]
    Train(#[from] spag_train::Error),

    /// From the world: the lexicon.
    #[error(transparent)]
    World(#[from] spag_world::Error),
}

impl Error {
    /// Wraps an operating system error: `.map_err(Error::io("create it", &path))`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, action, source }
    }
}

fn did_you_mean(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known here: {}", known.join(", ")),
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(" or ")
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Io { source, .. } => source.class(),
            Self::Game(error) => error.class(),
            Self::File(error) => error.class(),
            Self::Rewards(error) => error.class(),
            Self::Model(error) => error.class(),
            Self::SelfPlay(error) => error.class(),
            Self::Dist(error) => error.class(),
            Self::Train(error) => error.class(),
            Self::World(error) => error.class(),
            Self::RunLocked { .. }
            | Self::NothingToLearn { .. }
            | Self::GamesFailed { .. }
            | Self::Tokenizer { .. } => ErrorClass::Failure,
            Self::UnknownSetting { .. }
            | Self::Malformed { .. }
            | Self::ExtendsItself { .. }
            | Self::BadOverride { .. }
            | Self::BadSetting { .. }
            | Self::MissingInput { .. }
            | Self::RunDiffers { .. }
            | Self::DamagedRun { .. } => ErrorClass::BadInput,
        }
    }
}
