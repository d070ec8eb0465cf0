//! The signals that the launcher passes on.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::flag;

use spag_cli::{Error, Result, Signal};

/// Which signals have come since they were last asked for.
#[derive(Debug)]
pub(super) struct Signals {
    come: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    /// Listens from now on, to all that were not ignored so far (`nohup` ignores SIGHUP, and means it).
    ///
    /// # Errors
    /// The system lets nobody listen.
    pub(super) fn listen() -> Result<Self> {
        let ignored = fs::read_to_string("/proc/self/status").map(|text| ignored(&text)).unwrap_or(0);
        let mut come = Vec::new();
        for signal in Signal::ALL {
            if ignored >> (signal.number() - 1) & 1 == 0 {
                let flag = Arc::new(AtomicBool::new(false));
                flag::register(signal.number(), flag.clone()).map_err(Error::Signals)?;
                come.push((signal, flag));
            }
        }
        Ok(Self { come })
    }

    /// Those that have come.
    pub(super) fn take(&self) -> impl Iterator<Item = Signal> {
        self.come.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed)).map(|(signal, _)| *signal)
    }
}

/// The mask of ignored signals in Linux's `/proc/PID/status`: bit n-1 for signal n.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals() {
        let mask = ignored("Name:\tspag\nSigIgn:\t0000000000001001\nSigCgt:\t00000001800004e8\n");
        assert_eq!(mask >> (Signal::Hangup.number() - 1) & 1, 1);
        assert_eq!(mask >> (Signal::Interrupt.number() - 1) & 1, 0);
        assert_eq!(ignored("nothing of the kind"), 0);
    }
}
