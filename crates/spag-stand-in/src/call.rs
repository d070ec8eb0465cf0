//! Helpers shared by all functions of the C interface.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::fault::fault;
use crate::queue::check_sticky;
use crate::result::Error;

/// A handle or address as passed by the caller.
pub(crate) fn number(handle: *const c_void) -> u64 {
    handle as u64
}

/// A handle to return.
pub(crate) fn handle(number: u64) -> *mut c_void {
    number as *mut c_void
}

/// Writes a result through a caller's pointer.
pub(crate) fn put<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::InvalidValue);
    }
    // SAFETY: every function's contract allows writing through result pointers.
    unsafe { to.write(value) };
    Ok(())
}

/// Runs a call and converts its result to a status code. A panic ends the process.
pub(crate) fn answer(name: &str, call: impl FnOnce() -> Result<(), Error>) -> i32 {
    match catch_unwind(AssertUnwindSafe(|| check_sticky().and_then(|()| call()))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error as i32,
        Err(_) => fault!("{name} panicked"),
    }
}

/// Defines functions of the C interface.
macro_rules! exported {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of CUDA's libraries.")]
        ///
        /// # Safety
        /// As documented by the library: pointers must be valid for the call's use of them.
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? $body
    )*};
}
pub(crate) use exported;

/// Defines driver functions whose bodies return a `Result`.
macro_rules! calls {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $crate::call::exported! {$(
            fn $name($($arg: $type),*) -> i32 { $crate::call::answer(stringify!($name), || $body) }
        )*}
    };
}
pub(crate) use calls;
