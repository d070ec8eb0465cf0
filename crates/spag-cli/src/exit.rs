//! How every program runs and ends: errors become a message and an exit code.

use std::{
    borrow::Cow,
    io::{self, Write as _},
    panic::{self, PanicHookInfo},
    process::ExitCode,
};

use spag_io::ErrorClass;
use terminal_size::Width;

use crate::{Error, Result, fit, signal};

const BAD_INPUT: u8 = ErrorClass::BadInput.exit_code();
const FAILURE: u8 = ErrorClass::Failure.exit_code();
const LOST_PEER: u8 = ErrorClass::LostPeer.exit_code();

/// Bytes of a message beyond which its middle is left out.
const MAX_MESSAGE: usize = 8192;

/// The variable that `spag launch` sets for its ranks: `spag_dist::RESTART_COUNT_VARIABLE`.
const START_VARIABLE: &str = "SPAG_RESTART_COUNT";

/// The process that started this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    /// `spag launch`, which looks for the rank that failed first.
    Launcher,
    /// A shell or another launcher.
    Other,
}

impl Parent {
    fn detect() -> Self {
        if std::env::var_os(START_VARIABLE).is_some() { Self::Launcher } else { Self::Other }
    }

    /// The exit code for an error.
    fn exit_code(self, error: &Error) -> u8 {
        match error {
            Error::Answered(_) => 0,
            Error::Stdout(_) | Error::Threads(_) | Error::Signals(_) => FAILURE,
            Error::Stopped { signal, .. } => signal.exit_code(),
            Error::Other { exit_code: LOST_PEER, .. } if self == Self::Other => FAILURE,
            Error::Other { exit_code, .. } => *exit_code,
            Error::Flags(_)
            | Error::UnknownFlag { .. }
            | Error::Unsupported { .. }
            | Error::NoValue { .. }
            | Error::BadValue { .. } => BAD_INPUT,
        }
    }
}

/// Runs a program and returns its exit code.
///
/// Prints an error to stderr as `error: …` with its causes. A panic becomes an error message; `RUST_BACKTRACE` adds a
/// backtrace. A panic that [`spag_io::catch_panic`] turns into an error is reported as that error only.
pub fn run(program: impl FnOnce() -> Result<()> + panic::UnwindSafe) -> ExitCode {
    let with_backtrace = std::env::var_os("RUST_BACKTRACE").is_some().then(panic::take_hook);
    panic::set_hook(Box::new(move |info| match &with_backtrace {
        _ if spag_io::is_panic_caught() => {}
        Some(hook) => hook(info),
        None => report_panic(info),
    }));
    signal::fail_writes_beyond_limit();
    match panic::catch_unwind(program) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => report(&error),
        Err(_) => ExitCode::from(FAILURE),
    }
}

/// Writes one line, or a table of several, to standard output, with controls of terminals escaped. A table that is wider than the
/// terminal is cut into parts below each other.
///
/// If its reader has gone (`spag … | true`), the text is dropped and the program goes on: whether it succeeds does not
/// depend on who reads its output.
///
/// # Errors
/// [`Error::Stdout`] if it cannot be written for another reason, for instance a full disk.
pub fn say(text: impl std::fmt::Display) -> Result<()> {
    let text = text.to_string();
    let text = spag_io::escape_table(&text);
    let mut out = io::stdout().lock();
    let text = match terminal_size::terminal_size_of(&out) {
        Some((Width(width), _)) => Cow::Owned(fit::fit_tables(&text, width.into())),
        None => text,
    };
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(closed) if closed.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::Stdout),
    }
}

/// Writes one message to standard error: at most 8 KiB of it, with controls of terminals escaped and later lines indented.
/// A closed stderr is ignored.
pub fn note(message: impl std::fmt::Display) {
    let message = message.to_string();
    let _ = writeln!(io::stderr().lock(), "{}", spag_io::escape_lines(&spag_io::abridge(&message, MAX_MESSAGE)));
}

fn report(error: &Error) -> ExitCode {
    match error {
        Error::Flags(flags) => return report_flags(flags),
        Error::Answered(text) => return print(text),
        // Only of programs that stream what they read, as `spag show | head`; they have nothing else to do.
        Error::Stdout(closed) if closed.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Error::Stopped { .. } => note(error),
        error => note(format_args!("error: {}", spag_io::error_chain(error))),
    }
    ExitCode::from(Parent::detect().exit_code(error))
}

/// Prints a text of the program's own, which is not escaped.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The exit code after a text was printed.
fn printed(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&Error::Stdout(error)),
    }
}

/// Prints clap's message, in colour only if the command line holds nothing that has to be escaped. The exit code is 0 for
/// `--help` and `--version`, unless they cannot be written.
fn report_flags(flags: &clap::Error) -> ExitCode {
    let plain = flags.render().to_string();
    if !flags.use_stderr() {
        return printed(flags.print().and_then(|()| io::stdout().flush()));
    }
    if plain.len() > MAX_MESSAGE || matches!(spag_io::escape_table(&plain), Cow::Owned(_)) {
        note(plain.trim_end());
    } else {
        let _ = flags.print();
    }
    ExitCode::from(u8::try_from(flags.exit_code()).unwrap_or(BAD_INPUT))
}

fn report_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = text.unwrap_or("unknown");
    let at = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
    note(format_args!("error: a fault in this program{at}: {what}; RUST_BACKTRACE=1 shows where it comes from"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(error: impl Into<Error>) -> u8 {
        Parent::Launcher.exit_code(&error.into())
    }

    #[test]
    fn missing_file_is_bad_input_and_full_disk_is_failure() {
        let io = |kind: io::ErrorKind| spag_io::Error::Io { path: "a".into(), source: kind.into() };
        assert_eq!(code(io(io::ErrorKind::NotFound)), BAD_INPUT);
        assert_eq!(code(spag_game::Error::File(io(io::ErrorKind::StorageFull))), FAILURE);
    }

    #[cfg(feature = "models")]
    #[test]
    fn lost_peer_is_reported_to_the_launcher_only() {
        let lost = || Error::from(spag_dist::Error::Lost { rank: 1, reason: "gone".into() });
        assert_eq!((code(lost()), Parent::Other.exit_code(&lost())), (LOST_PEER, FAILURE));
        assert_eq!(code(spag_dist::Error::RestartMismatch { rank: 1, theirs: 0, first: 1 }), FAILURE);
        assert_eq!(START_VARIABLE, spag_dist::RESTART_COUNT_VARIABLE);
    }
}
