//! Command lines with the flags of the reference's scripts.
//!
//! Before clap parses a command line, `--kebab-case` becomes `--snake_case` (`spelling`) and flags of the reference
//! that have no effect are removed with a note (`foreign`, by the tables of `reference`). An unknown flag is an error
//! that names the nearest known one.

mod foreign;
mod generated;
mod given;
mod programs;
mod reference;
mod spelling;
mod value;

use std::ffi::OsString;

use clap::{Arg, Command, Parser, error::ErrorKind};

use crate::{Error, Result};
pub use clap_complete::Shell;
pub use foreign::Notes;
pub use generated::{completions, with_flags};
pub use given::Given;
pub use programs::{Task, list_flags};
use spelling::snake_case_flags;
pub use value::{THREADS, count, truth, within};

/// Parses the arguments of a program that has no flags but its own.
///
/// `args` starts with the program's name, as [`std::env::args_os`] does.
///
/// # Errors
/// An invalid command line.
pub fn parse<T: Parser>(args: impl IntoIterator<Item = OsString>) -> Result<T> {
    from_args(snake_case_flags(args), &[])
}

/// Parses the arguments of a program that the reference starts with all of `transformers`' training flags.
///
/// Flags that have no effect on `task` are accepted; the notes name them with the reason.
///
/// # Errors
/// An invalid command line.
pub fn parse_reference<T: Parser>(task: Task, args: impl IntoIterator<Item = OsString>) -> Result<(T, Notes)> {
    let (args, notes) = foreign::remove_foreign(task, &T::command(), snake_case_flags(args))?;
    let foreign: Vec<&str> = task.foreign_flags().flat_map(|group| group.names.split_whitespace()).collect();
    Ok((from_args(args, &foreign)?, notes))
}

fn from_args<T: Parser>(args: Vec<OsString>, foreign: &[&str]) -> Result<T> {
    let command = generated::with_flags(allow_negative_values(T::command()));
    let explained = |error: clap::Error| explain(error.format(&mut T::command()), &T::command(), foreign);
    let matches = command.clone().try_get_matches_from(args).map_err(explained)?;
    match generated::asked(&command, &matches)? {
        Some(text) => Err(Error::Answered(text)),
        None => T::from_arg_matches(&matches).map_err(explained),
    }
}

/// Lets `-1` be a value, so that the flag's own parser rejects it with its own message.
fn allow_negative_values(command: Command) -> Command {
    let with_values = |arg: Arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg };
    command.mut_args(with_values).mut_subcommands(allow_negative_values)
}

/// Replaces clap's error about an unknown flag by one that also suggests `foreign` names.
fn explain(error: clap::Error, command: &Command, foreign: &[&str]) -> Error {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(flag)) =
        error.get(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)
    else {
        return Error::Flags(error);
    };
    let Some(name) = flag.strip_prefix("--") else { return Error::Flags(error) };
    // clap has searched the flags of the subcommand.
    let nearest = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(suggested)) => Some(suggested.clone()),
        _ => {
            let own = command.get_arguments().filter_map(Arg::get_long);
            let nearest = spag_io::nearest_name(name, own.chain(foreign.iter().copied()));
            nearest.map(|name| format!("--{name}"))
        }
    };
    Error::UnknownFlag { flag: flag.clone(), nearest }
}
