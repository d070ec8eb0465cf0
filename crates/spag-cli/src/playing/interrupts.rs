//! Ctrl-C and SIGTERM: the first asks, the second insists.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::{Error, Result};

/// A signal that asks a program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// What `kill` and schedulers send.
    Terminate,
}

impl Signal {
    const ALL: [Self; 2] = [Self::Interrupt, Self::Terminate];

    fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
        }
    }

    /// What shells make of it: 128 and its number, 130 for Ctrl-C and 143 for SIGTERM.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.number()).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// Which of the signals has come. The first is noted and nothing more; a second one ends the program at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    /// The number of the last signal; 0 before the first.
    caught: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system lets nobody listen.
    pub(crate) fn listen() -> Result<Self> {
        let (stopping, caught) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for signal in Signal::ALL {
            let number = signal.number();
            // In this order: what the first one sets ends the program with the second.
            flag::register_conditional_shutdown(number, i32::from(signal.exit_code()), stopping.clone())
                .and_then(|_| flag::register(number, stopping.clone()))
                .and_then(|_| flag::register_usize(number, caught.clone(), usize::try_from(number).unwrap_or_default()))
                .map_err(Error::Signals)?;
        }
        Ok(Self { caught })
    }

    /// The signal that has come, if one has.
    pub(crate) fn caught(&self) -> Option<Signal> {
        let number = self.caught.load(Ordering::Relaxed);
        Signal::ALL.into_iter().find(|signal| usize::try_from(signal.number()) == Ok(number))
    }
}
