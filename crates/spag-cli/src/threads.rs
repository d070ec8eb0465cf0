//! The threads that a program computes on.

use std::{error::Error as _, io};

use crate::{Error, Result, flags};

/// The variable with the number of threads.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Starts the threads that models, tokenizers and training share: as many as `RAYON_NUM_THREADS` says, or one per core.
///
/// rayon would start them at their first use, and panic if the system has no more threads.
///
/// # Errors
/// They cannot be started, or the variable asks for more than a program may have.
pub fn start() -> Result<()> {
    if let Some(number) = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<usize>().ok())
        && number > *flags::THREADS.end()
    {
        let problem = format!("expected at most {} threads", flags::THREADS.end());
        return Err(Error::BadValue { flag: format!("{VARIABLE}={number}"), problem });
    }
    match rayon::ThreadPoolBuilder::new().build_global() {
        // Without a source if they run already.
        Err(error) if error.source().is_some() => Err(no_threads(error)),
        _ => Ok(()),
    }
}

/// Runs `f` on a pool of `threads` threads.
///
/// # Errors
/// The threads cannot be started, or the error of `f`.
pub fn run_on<R: Send, E: Send>(threads: usize, f: impl FnOnce() -> Result<R, E> + Send) -> Result<R>
where
    Error: From<E>,
{
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(no_threads)?;
    Ok(pool.install(f)?)
}

fn no_threads(error: rayon::ThreadPoolBuildError) -> Error {
    Error::Threads(io::Error::other(error))
}
