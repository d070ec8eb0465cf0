//! Turns panics of libraries into errors.
//!
//! A parser that panics on an odd file must not crash the program. [`catch_panic`] turns the panic into a message;
//! [`is_panic_caught`] tells the program's panic hook, which runs first, not to report it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    /// Depth of nested [`catch_panic`] calls of this thread.
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

/// Calls a library function that may panic. State that `call` was changing when it panicked must not be used again.
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
/// Stack that a call needs in addition to that of the nesting levels of its input.
const OWN_STACK: usize = 256 << 10;

/// [`catch_panic`] with `stack` bytes of stack, on a new thread if the current one may have less.
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
