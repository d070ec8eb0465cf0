//! Ctrl-C and SIGTERM: the first asks, the second insists.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use signal_hook::flag;

use spag_cli::{Error, Result, Signal};

/// Those that are listened to.
const STOPPING: [Signal; 2] = [Signal::Interrupt, Signal::Terminate];

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
        for signal in STOPPING {
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
        STOPPING.into_iter().find(|signal| usize::try_from(signal.number()) == Ok(number))
    }
}
