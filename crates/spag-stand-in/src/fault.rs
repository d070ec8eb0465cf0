//! Ends the process on errors that a device would not report.

/// Exit code after an operation that a device does not support or silently gets wrong.
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
    // SAFETY: ends the process at once; stream threads would continue during an ordinary exit.
    unsafe { libc::_exit(EXIT_CODE) }
}
