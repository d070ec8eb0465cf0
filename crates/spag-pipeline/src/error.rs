//! The error type of this crate.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass, format_gib};
use thiserror::Error;

use crate::config::MissingInput;

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of runs and of making base models.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration has an unknown setting.
    #[error("{place}: unknown setting `{key}`{}", did_you_mean(.nearest, .known))]
    UnknownSetting {
        /// File and line, or the `--set` argument.
        place: String,
        /// The unknown key.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
        /// All known keys of the table.
        known: Vec<String>,
    },

    /// A configuration is not TOML, or a value has the wrong type.
    #[error("{place}: {message}")]
    Malformed {
        /// File and line, or the `--set` argument.
        place: String,
        /// The parser's message, with the line if known.
        message: String,
    },

    /// A configuration extends itself, directly or through others.
    #[error("{}: `extends` leads back to this file; remove one of the links", .path.display())]
    ExtendsItself {
        /// The file that was read twice.
        path: PathBuf,
    },

    /// A setting has an invalid value.
    #[error("setting `{setting}`: {message}")]
    BadSetting {
        /// The dotted key.
        setting: &'static str,
        /// What is wrong and which values are valid.
        message: String,
    },

    /// Files or folders of settings do not exist.
    #[error(
        "{}; a relative path is looked up in the current directory, then in the parent of the configuration's folder",
        lines(.inputs)
    )]
    MissingInputs {
        /// All of them.
        inputs: Vec<MissingInput>,
    },

    /// The run folder was made with other settings.
    #[error(
        "{}: made with `{key}` = {was}, but it is now {now}; choose another run_dir (--set run_dir=…) or delete this one",
        .run_dir.display()
    )]
    RunDiffers {
        /// The run folder.
        run_dir: PathBuf,
        /// The first setting or input that differs.
        key: String,
        /// Its value when the folder was made.
        was: String,
        /// Its value now.
        now: String,
    },

    /// Another process uses the run folder.
    #[error("{}: process {holder} is running here; wait for it, or choose another run_dir", .run_dir.display())]
    RunLocked {
        /// The run folder.
        run_dir: PathBuf,
        /// The id of the other process.
        holder: String,
    },

    /// A file or folder could not be read or written.
    #[error("{}: could not {action}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation, as a verb phrase.
        action: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A file of the run folder is invalid.
    #[error("{}: {message}; delete this file and run the command again", .path.display())]
    DamagedRun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },

    /// A run stopped before its last stage, since there is nothing to learn from a round or a rule says so.
    #[error("stage {stage} stopped the run: {reason}; its games are in {}", .file.display())]
    Stopped {
        /// The stage's name.
        stage: String,
        /// What is wrong with its games.
        reason: String,
        /// The games.
        file: PathBuf,
    },

    /// The command of `self_play.prepare` failed.
    #[error("self_play.prepare: {program}: {problem}")]
    Prepare {
        /// The program.
        program: String,
        /// How it ended, or why it did not start.
        problem: String,
    },

    /// The disk of the run folder is too small for the files of the run.
    #[error(
        "{}: the run will write about {} more, but {} are free; choose another run_dir, or fewer checkpoints \
         (save_total_limit, save_steps)",
        .path.display(), format_gib(*.needed), format_gib(*.free)
    )]
    TooLittleDisk {
        /// The run folder.
        path: PathBuf,
        /// Bytes that are still to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },

    /// A stage lacks a file of an earlier stage.
    #[error(
        "stage {stage} reads {}, which is missing; if an earlier stage made it, delete that stage's done.json to make it again",
        .path.display()
    )]
    MissingStageInput {
        /// The stage's name.
        stage: String,
        /// The missing file or folder.
        path: PathBuf,
    },

    /// Games of a stage failed.
    #[error("{}: {count} games failed; {} has the reasons; the same command plays them again",
        .path.display(), .failed.display())]
    GamesFailed {
        /// The finished games.
        path: PathBuf,
        /// The failed games with reasons.
        failed: PathBuf,
        /// The number of failed games.
        count: usize,
    },

    /// The tokenizer could not be trained.
    #[error("could not train the tokenizer: {message}")]
    Tokenizer {
        /// The trainer's message.
        message: String,
    },

    /// An error of the game: episodes, words, prompts, players.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),

    /// An error of credit assignment.
    #[error(transparent)]
    Rewards(#[from] spag_rewards::Error),

    /// An error of a checkpoint, a tokenizer or generation.
    #[error(transparent)]
    Model(#[from] spag_model::Error),

    /// An error of self-play.
    #[error(transparent)]
    SelfPlay(#[from] spag_selfplay::Error),

    /// A rank is lost or has other settings.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),

    /// An error of training.
    #[error(transparent)]
    Train(#[from] spag_train::Error),

    /// An error of the benchmarks.
    #[error(transparent)]
    Eval(#[from] spag_eval::Error),

    /// The learner's log-probabilities are not those at sampling, although both compute on a CPU.
    #[error(
        "update {update}: the learner's log-probabilities differ from those at sampling by up to {max:e} (mean {mean:e}, {tokens} \
         tokens), and on a CPU they are the same; this is a fault of the program, please report it"
    )]
    LogProbGap {
        /// The update, from 0.
        update: usize,
        /// The largest difference.
        max: f64,
        /// The mean difference.
        mean: f64,
        /// Tokens compared.
        tokens: u64,
    },

    /// What ranks exchange cannot be read.
    #[error("the ranks' results cannot be exchanged: {0}")]
    Exchange(serde_json::Error),

    /// An error of the lexicon.
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

/// One input, or all of them with a line each.
fn lines(inputs: &[MissingInput]) -> String {
    let lines: Vec<String> = inputs.iter().map(MissingInput::to_string).collect();
    match lines.as_slice() {
        [one] => one.clone(),
        _ => format!(
            "{} inputs are missing:\n  {}\nthey have to be there before the run",
            lines.len(),
            lines.join("\n  ")
        ),
    }
}

impl From<spag_ops::Error> for Error {
    fn from(error: spag_ops::Error) -> Self {
        Self::Model(error.into())
    }
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
            Self::Eval(error) => error.class(),
            Self::World(error) => error.class(),
            Self::RunLocked { .. }
            | Self::LogProbGap { .. }
            | Self::Exchange(_)
            | Self::Prepare { .. }
            | Self::TooLittleDisk { .. }
            | Self::Stopped { .. }
            | Self::GamesFailed { .. }
            | Self::Tokenizer { .. } => ErrorClass::Failure,
            Self::UnknownSetting { .. }
            | Self::Malformed { .. }
            | Self::ExtendsItself { .. }
            | Self::BadSetting { .. }
            | Self::MissingInputs { .. }
            | Self::RunDiffers { .. }
            | Self::MissingStageInput { .. }
            | Self::DamagedRun { .. } => ErrorClass::BadInput,
        }
    }
}
