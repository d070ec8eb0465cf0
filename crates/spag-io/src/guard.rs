//! Panics of libraries as errors.
//!
//! A parser that panics on an odd file must not end the program with a report of a fault. [`catch_panic`] turns its
//! panic into a message; [`is_panic_caught`] tells the program's panic hook, which runs first, to stay silent.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    /// Calls of [`catch_panic`] that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One call of [`catch_panic`].
struct Entered;

impl Entered {
    fn new() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Whether a panic of this thread will be caught by [`catch_panic`]. A panic hook should not report it.
pub fn is_panic_caught() -> bool {
    DEPTH.get() > 0
}

/// Calls a function of a library that may panic. What `call` was changing when it panicked must not be used again.
///
/// Aborts cannot be caught: a failed allocation and a stack overflow have to be ruled out before the call.
///
/// # Errors
/// The message of the panic.
///
/// ```
/// let chunks = |size: usize| spag_io::catch_panic(|| [1, 2, 3].chunks(size).len());
/// assert_eq!(chunks(2), Ok(2));
/// assert!(chunks(0).is_err_and(|message| message.contains("must be non-zero")));
/// ```
pub fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let entered = Entered::new();
    let outcome = catch_unwind(AssertUnwindSafe(call));
    drop(entered);
    outcome.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".into())
    })
}

/// Stack that every thread of the programs has free.
const USUAL_STACK: usize = 1 << 20;
/// Stack that a call needs beside that of the text's levels.
const OWN_STACK: usize = 256 << 10;

/// As [`catch_panic`], with `stack` bytes. More than every thread has is that of a new thread.
///
/// # Errors
/// The message of the panic, or no thread with this stack can be started.
pub fn catch_panic_with_stack<T: Send>(stack: usize, call: impl FnOnce() -> T + Send) -> Result<T, String> {
    if stack <= USUAL_STACK {
        return catch_panic(call);
    }
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(stack.saturating_add(OWN_STACK));
        let running = builder.spawn_scoped(scope, || catch_panic(call));
        let running = running.map_err(|error| format!("a thread with a stack of {stack} bytes: {error}"))?;
        running.join().unwrap_or_else(|_| Err("a panic without a message".into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_its_message_and_the_guard_ends() {
        let caught = catch_panic(|| {
            assert!(is_panic_caught());
            assert_eq!(catch_panic(is_panic_caught), Ok(true));
            assert!(is_panic_caught(), "the outer call goes on");
            panic!("row {}", 3);
        });
        assert_eq!(caught, Err::<(), _>("row 3".to_owned()));
        assert!(!is_panic_caught());
    }
}
