//! The one way in and out of every program: errors become a message and an exit code.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    panic::{self, PanicHookInfo},
    process::ExitCode,
};

use crate::{
    Error, Result,
    exit_code::{BAD_INPUT, FAILURE, Parent, exit_code_for},
    programs::spag::LaunchError,
};

/// Runs a program and says what became of it.
///
/// An error is printed to stderr as `error: …` with its causes. A reader of our output that went away
/// (`spag … | head`) is the end of the work, not an error. A fault of our own ends as a message too,
/// with a backtrace only where one was asked for.
pub(crate) fn run(program: impl FnOnce() -> Result<()> + panic::UnwindSafe) -> ExitCode {
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
pub(crate) fn say(line: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::Stdout)
}

/// Writes one line to standard error; a closed stderr is nobody's loss.
pub(crate) fn note(line: impl std::fmt::Display) {
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
        Error::Stopped { .. } | Error::Launch(LaunchError::Stopped(_)) => {
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
}
