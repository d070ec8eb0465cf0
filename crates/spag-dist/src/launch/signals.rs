//! The signals that the launcher forwards to its ranks.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::flag;

use spag_io::Signal;

use super::error::{LaunchError, Result};

/// The signals received since the last [`Signals::take`].
#[derive(Debug)]
pub(super) struct Signals {
    flags: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    /// Handles all signals from now on, except those that are ignored already (`nohup` ignores SIGHUP).
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub(super) fn listen() -> Result<Self> {
        let ignored = fs::read_to_string("/proc/self/status").map(|text| ignored(&text)).unwrap_or(0);
        let mut flags = Vec::new();
        for signal in Signal::ALL {
            if ignored >> (signal.number() - 1) & 1 == 0 {
                let flag = Arc::new(AtomicBool::new(false));
                flag::register(signal.number(), flag.clone()).map_err(LaunchError::Signals)?;
                flags.push((signal, flag));
            }
        }
        Ok(Self { flags })
    }

    pub(super) fn take(&self) -> impl Iterator<Item = Signal> {
        self.flags.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed)).map(|(signal, _)| *signal)
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
    fn ignored_signals_are_read_from_proc_status() {
        let mask = ignored("Name:\tspag\nSigIgn:\t0000000000001001\nSigCgt:\t00000001800004e8\n");
        assert_eq!(mask >> (Signal::Hangup.number() - 1) & 1, 1);
        assert_eq!(mask >> (Signal::Interrupt.number() - 1) & 1, 0);
        assert_eq!(ignored("nothing of the kind"), 0);
    }
}
