//! Ending the process where a device would be wrong in silence.

/// Exit code of a process that did what a device cannot do, or does wrong in silence.
pub(crate) const EXIT_CODE: i32 = 70;

/// Ends the process with a message.
macro_rules! fault {
    ($($text:tt)*) => {
        $crate::fault::end(&format!($($text)*))
    };
}
pub(crate) use fault;

pub(crate) fn end(message: &str) -> ! {
    eprintln!("stand-in: {message}");
    // SAFETY: ends the process at once; threads of streams would go on during an ordinary exit.
    unsafe { libc::_exit(EXIT_CODE) }
}
