//! How a rank's program ended.

use std::{fmt, os::unix::process::ExitStatusExt, process::ExitStatus};

use spag_cli::exit::{BAD_INPUT, FAILURE, LOST_PEER};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// What the launcher ends with in turn: the same code, and 128 and its number for a signal, as shells have it. What a
    /// rank that lost another one says to the launcher is a failure to everybody else.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) if code == i32::from(LOST_PEER) => i32::from(FAILURE),
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
        };
        // Never a success.
        u8::try_from(code & 0xff).ok().filter(|code| *code != 0).unwrap_or(1)
    }

    /// Whether a new start with the same arguments would end alike.
    pub(super) fn would_fail_again(self) -> bool {
        self == Self::Code(i32::from(BAD_INPUT))
    }

    /// How far from the cause this is likely to be: a kill is the cause, and a lost peer is not.
    pub(super) fn remoteness(self) -> u8 {
        match self {
            Self::Signal(_) => 0,
            Self::Code(code) if code == i32::from(LOST_PEER) => 2,
            Self::Code(_) => 1,
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(number)) => Self::Signal(number),
            // Stopped or continued, which nobody asks to be told.
            (None, None) => Self::Code(1),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) if *code == i32::from(LOST_PEER) => {
                write!(f, "exit code {code} (it lost another rank: see its messages)")
            }
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match signal_hook::low_level::signal_name(*number) {
                Some(name) => write!(f, "killed by {name} (signal {number})"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_as_shells_have_them() {
        assert_eq!([Ended::Code(7), Ended::Code(3), Ended::Signal(9)].map(Ended::exit_code), [7, 1, 137]);
        assert_eq!(Ended::Signal(9).to_string(), "killed by SIGKILL (signal 9)");
        assert!(Ended::Code(2).would_fail_again() && !Ended::Code(1).would_fail_again());
    }
}
