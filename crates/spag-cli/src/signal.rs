//! Signals by their names, their numbers, and what they mean.

use std::fmt;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// A signal that a program listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// What `kill` and schedulers send.
    Terminate,
    /// The terminal is gone.
    Hangup,
    /// The program's own.
    User1,
    /// The program's own.
    User2,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Interrupt, Self::Terminate, Self::Hangup, Self::User1, Self::User2];

    /// The system's number.
    pub fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
            Self::Hangup => SIGHUP,
            Self::User1 => SIGUSR1,
            Self::User2 => SIGUSR2,
        }
    }

    /// Whether it asks a program to end.
    pub fn ends(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate | Self::Hangup)
    }

    /// Whether it means "now" when it comes while the ranks are being stopped.
    pub fn insists(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate)
    }

    /// What shells make of it: 128 and its number, 130 for Ctrl-C and 143 for SIGTERM.
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
    fn codes_as_shells_have_them() {
        assert_eq!(Signal::ALL.map(Signal::exit_code), [130, 143, 129, 138, 140]);
    }
}
