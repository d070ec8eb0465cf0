//! The one way in and out of every program: errors become a message and an exit code.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind, Write as _},
    panic::{self, PanicHookInfo},
    process::ExitCode,
};

use spag_io::{Classify, ErrorClass};

use crate::{Error, Result};

/// Exit code for a command line or an input that cannot be used.
pub const BAD_INPUT: u8 = 2;
/// Exit code for everything else that fails.
pub const FAILURE: u8 = 1;
/// Exit code for a process that lost another one of its run: the cause lies there. Said to `spag launch` alone; for
/// everybody else it is a [`FAILURE`].
pub const LOST_PEER: u8 = 3;

/// Who is told the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// `spag launch`, which looks for the rank that failed first.
    Launcher,
    /// A shell, another launcher, a person.
    Anybody,
}

impl Parent {
    /// As the environment says.
    pub fn detect() -> Self {
        match std::env::var_os(spag_dist::START_VARIABLE) {
            Some(_) => Self::Launcher,
            None => Self::Anybody,
        }
    }
}

/// What a process ends with that ends with this error.
pub fn exit_code_for(parent: Parent, error: &Error) -> u8 {
    match (exit_code(error), parent) {
        (LOST_PEER, Parent::Anybody) => FAILURE,
        (code, _) => code,
    }
}

/// 1 when the same command may succeed on another day or machine, 2 when what it was given has to change, and what
/// shells say of a signal where one ended the program.
fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Stdout(_) | Error::Signals(_) | Error::GamesFailed { .. } => FAILURE,
        Error::Stopped { signal, .. } => signal.exit_code(),
        Error::Io { source, .. } => io_code(source),
        Error::Exit { code, .. } => *code,
        Error::Dist(error) => dist_code(error),
        Error::Game(error) => game_code(error),
        Error::File(error) => file_code(error),
        Error::Rewards(error) => rewards_code(error),
        Error::Model(error) => model_code(error),
        Error::Train(error) => train_code(error),
        Error::SelfPlay(error) => selfplay_code(error),
        Error::Pipeline(error) => pipeline_code(error),
        _ => BAD_INPUT,
    }
}

/// A wrong name or a locked door is for the user to mend; a full or failing disk is not.
fn io_code(error: &io::Error) -> u8 {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidData
        | ErrorKind::UnexpectedEof => BAD_INPUT,
        _ => FAILURE,
    }
}

fn file_code(error: &spag_io::Error) -> u8 {
    match error.class() {
        ErrorClass::BadInput => BAD_INPUT,
        ErrorClass::Failure => FAILURE,
        ErrorClass::LostPeer => LOST_PEER,
    }
}

fn dist_code(error: &spag_dist::Error) -> u8 {
    match error {
        spag_dist::Error::Lost { .. } | spag_dist::Error::Aborted { .. } => LOST_PEER,
        // Ranks that came too late, or not yet, may come another time.
        spag_dist::Error::OtherStart { .. }
        | spag_dist::Error::Missing { .. }
        | spag_dist::Error::Unreachable { .. }
        | spag_dist::Error::Buffer { .. }
        | spag_dist::Error::NoSuchRank { .. }
        | spag_dist::Error::Tensor(_) => FAILURE,
        _ => BAD_INPUT,
    }
}

fn game_code(error: &spag_game::Error) -> u8 {
    match error {
        spag_game::Error::File(error) => file_code(error),
        spag_game::Error::Player { .. }
        | spag_game::Error::PlayerGone { .. }
        | spag_game::Error::StrayReply { .. }
        | spag_game::Error::GameFailed { .. }
        | spag_game::Error::FailedInARow { .. } => FAILURE,
        _ => BAD_INPUT,
    }
}

fn rewards_code(error: &spag_rewards::Error) -> u8 {
    match error {
        spag_rewards::Error::Game(error) => game_code(error),
        spag_rewards::Error::File(error) => file_code(error),
        _ => BAD_INPUT,
    }
}

fn model_code(error: &spag_model::Error) -> u8 {
    match error {
        spag_model::Error::Io { source, .. } => io_code(source),
        spag_model::Error::Candle(_) => FAILURE,
        _ => BAD_INPUT,
    }
}

fn train_code(error: &spag_train::Error) -> u8 {
    match error {
        spag_train::Error::Io { source, .. } | spag_train::Error::Metrics(source) => io_code(source),
        spag_train::Error::Data(error) => rewards_code(error),
        spag_train::Error::Model(error) => model_code(error),
        spag_train::Error::Lines(error) => file_code(error),
        spag_train::Error::Dist(error) => dist_code(error),
        spag_train::Error::NotFinite { .. } | spag_train::Error::OutputInUse { .. } | spag_train::Error::Candle(_) => {
            FAILURE
        }
        _ => BAD_INPUT,
    }
}

fn selfplay_code(error: &spag_selfplay::Error) -> u8 {
    match error {
        spag_selfplay::Error::Game(error) => game_code(error),
        spag_selfplay::Error::File(error) => file_code(error),
        spag_selfplay::Error::Model(error) => model_code(error),
        spag_selfplay::Error::Dist(error) => dist_code(error),
        spag_selfplay::Error::Threads { .. } => FAILURE,
        _ => BAD_INPUT,
    }
}

fn pipeline_code(error: &spag_pipeline::Error) -> u8 {
    match error {
        spag_pipeline::Error::Io { source, .. } => io_code(source),
        spag_pipeline::Error::Game(error) => game_code(error),
        spag_pipeline::Error::File(error) => file_code(error),
        spag_pipeline::Error::Rewards(error) => rewards_code(error),
        spag_pipeline::Error::Model(error) => model_code(error),
        spag_pipeline::Error::SelfPlay(error) => selfplay_code(error),
        spag_pipeline::Error::Train(error) => train_code(error),
        spag_pipeline::Error::Dist(error) => dist_code(error),
        spag_pipeline::Error::RunLocked { .. }
        | spag_pipeline::Error::NothingToLearn { .. }
        | spag_pipeline::Error::GamesFailed { .. }
        | spag_pipeline::Error::Tokenizer { .. } => FAILURE,
        _ => BAD_INPUT,
    }
}

/// Runs a program and says what became of it.
///
/// An error is printed to stderr as `error: …` with its causes. A reader of our output that went away
/// (`spag … | head`) is the end of the work, not an error. A fault of our own ends as a message too,
/// with a backtrace only where one was asked for.
pub fn run(program: impl FnOnce() -> Result<()> + panic::UnwindSafe) -> ExitCode {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        panic::set_hook(Box::new(say_fault));
    }
    match panic::catch_unwind(program) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => report(&error),
        Err(_) => ExitCode::from(FAILURE),
    }
}

/// Writes one line to standard output.
///
/// # Errors
/// [`Error::Stdout`] where `println!` would panic.
pub fn say(line: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::Stdout)
}

/// Writes one line to standard error; a closed stderr is nobody's loss.
pub fn note(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn report(error: &Error) -> ExitCode {
    match error {
        // clap writes its own message, and --help is no error.
        Error::Flags(flags) => {
            let _ = flags.print();
            ExitCode::from(u8::try_from(flags.exit_code()).unwrap_or(BAD_INPUT))
        }
        Error::Stdout(gone) if gone.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // Whoever stopped it knows that it is no fault.
        Error::Stopped { .. } => {
            note(error);
            ExitCode::from(exit_code_for(Parent::detect(), error))
        }
        error => {
            note(format_args!("error: {}", chain(error)));
            ExitCode::from(exit_code_for(Parent::detect(), error))
        }
    }
}

/// An error and its causes in one line; a cause that the message before already tells is not told again.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

fn say_fault(fault: &PanicHookInfo<'_>) {
    let payload = fault.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = text.unwrap_or("unknown");
    let at = fault.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
    note(format_args!("error: a fault in this program{at}: {what}; RUST_BACKTRACE=1 shows where it comes from"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn a_chain_tells_each_cause_once() {
        let inner = Layer { text: "line 3: expected a comma", source: None };
        let middle = Layer { text: "a.json: line 3: expected a comma", source: Some(Box::new(inner)) };
        let outer = Layer { text: "cannot read the episodes", source: Some(Box::new(middle)) };
        assert_eq!(chain(&outer), "cannot read the episodes: a.json: line 3: expected a comma");
    }

    fn io(kind: ErrorKind) -> Error {
        Error::Io { path: "a".into(), source: kind.into() }
    }

    #[test]
    fn a_missing_file_is_bad_input_and_a_full_disk_a_failure() {
        assert_eq!([exit_code(&io(ErrorKind::NotFound)), exit_code(&io(ErrorKind::StorageFull))], [BAD_INPUT, FAILURE]);
        let nested = spag_io::Error::Io { path: "a".into(), source: ErrorKind::StorageFull.into() };
        let nested = spag_train::Error::Data(spag_rewards::Error::File(nested));
        assert_eq!(exit_code(&Error::Train(nested)), FAILURE);
    }

    #[test]
    fn a_lost_rank_is_a_failure_and_the_launcher_hears_of_it() {
        let lost = Error::Dist(spag_dist::Error::Lost { rank: 1, reason: "gone".into() });
        let codes = [Parent::Anybody, Parent::Launcher].map(|parent| exit_code_for(parent, &lost));
        assert_eq!(codes, [FAILURE, LOST_PEER]);
        let late = Error::Dist(spag_dist::Error::OtherStart { rank: 1, theirs: 0, first: 1 });
        assert_eq!(exit_code_for(Parent::Launcher, &late), FAILURE);
    }

    #[test]
    fn bad_rows_and_settings_are_bad_input() {
        assert_eq!(exit_code(&Error::Rewards(spag_rewards::Error::DecayWeight { given: 0.0 })), BAD_INPUT);
        assert_eq!(exit_code(&Error::Train(spag_train::Error::NoSamples("none".into()))), BAD_INPUT);
    }
}
