//! Signals that would end a program in the middle of a file.

use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;

/// Makes a write beyond the limit of a file's size (`ulimit -f`) an error of this write. Without a handler, the signal
/// SIGXFSZ ends the process in the middle of the file, and temporary files are left.
pub(crate) fn fail_writes_beyond_limit() {
    // Best effort: without a handler, a program ends as any other does.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
