//! The exit status of a rank's process.

use std::{fmt, os::unix::process::ExitStatusExt, process::ExitStatus};

use spag_io::ErrorClass;

const BAD_INPUT: u8 = ErrorClass::BadInput.exit_code();
const FAILURE: u8 = ErrorClass::Failure.exit_code();
const LOST_PEER: u8 = ErrorClass::LostPeer.exit_code();

/// The exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankExit {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl RankExit {
    /// The launcher's exit code: the rank's code, or 128 plus the signal as in shells. The code of [`ErrorClass::LostPeer`] is
    /// only for the launcher and becomes that of [`ErrorClass::Failure`].
    pub fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) if code == i32::from(LOST_PEER) => i32::from(FAILURE),
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
        };
        u8::try_from(code & 0xff).ok().filter(|code| *code != 0).unwrap_or(FAILURE)
    }

    /// Whether a restart with the same arguments would fail again.
    pub(super) fn is_bad_input(self) -> bool {
        self == Self::Code(i32::from(BAD_INPUT))
    }

    /// Sorts failures by how likely they are the cause: signals first, lost peers last.
    pub(super) fn cause_order(self) -> u8 {
        match self {
            Self::Signal(_) => 0,
            Self::Code(code) if code == i32::from(LOST_PEER) => 2,
            Self::Code(_) => 1,
        }
    }
}

impl From<ExitStatus> for RankExit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(number)) => Self::Signal(number),
            // Stopped or continued; not reported without WUNTRACED.
            (None, None) => Self::Code(1),
        }
    }
}

impl fmt::Display for RankExit {
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
    fn exit_codes_follow_shells() {
        assert_eq!([RankExit::Code(7), RankExit::Code(3), RankExit::Signal(9)].map(RankExit::exit_code), [7, 1, 137]);
        assert_eq!(RankExit::Signal(9).to_string(), "killed by SIGKILL (signal 9)");
        assert!(RankExit::Code(2).is_bad_input() && !RankExit::Code(1).is_bad_input());
    }
}
