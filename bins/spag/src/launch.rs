//! `spag launch`: starts the ranks of a run on this machine, and stops them together.

use spag_cli::{Error, Result, exit};
use spag_dist::launch::{LaunchArgs, LaunchError, RankArgs, launch};

pub(crate) fn run(args: LaunchArgs) -> Result<()> {
    launch(args, |note| exit::note(format_args!("spag launch: {note}"))).map_err(of_program)
}

/// Becomes a rank of a launcher, which is killed with it.
pub(crate) fn run_rank(args: RankArgs) -> Result<()> {
    Err(of_program(args.execute()))
}

fn of_program(error: LaunchError) -> Error {
    match error {
        LaunchError::BadFlag { flag, problem } => Error::BadValue { flag, problem },
        LaunchError::Stopped(signal) => Error::Stopped { signal, message: error.to_string() },
        _ => Error::Other { exit_code: error.exit_code(), source: Box::new(error) },
    }
}
