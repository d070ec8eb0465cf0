//! The signals that programs handle.

use std::fmt;

use rustix::process::Signal as Unix;

/// A signal that a program handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: sent by Ctrl-C.
    Interrupt,
    /// SIGTERM: sent by `kill` and schedulers.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Interrupt, Self::Terminate, Self::Hangup, Self::User1, Self::User2];

    /// The number of the signal.
    pub fn number(self) -> i32 {
        match self {
            Self::Interrupt => Unix::INT,
            Self::Terminate => Unix::TERM,
            Self::Hangup => Unix::HUP,
            Self::User1 => Unix::USR1,
            Self::User2 => Unix::USR2,
        }
        .as_raw()
    }

    /// Whether the signal terminates a program.
    pub fn ends(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate | Self::Hangup)
    }

    /// Whether repeating the signal terminates a program at once.
    pub fn insists(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate)
    }

    /// The exit code that shells use: 128 plus the number, 130 for SIGINT and 143 for SIGTERM.
    pub fn exit_code(self) -> u8 {
        u8::try_from(128 + self.number()).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
            Self::User1 => "SIGUSR1",
            Self::User2 => "SIGUSR2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!(Signal::ALL.map(Signal::exit_code), [130, 143, 129, 138, 140]);
    }
}
