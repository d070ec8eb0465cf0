//! Flags as the reference's scripts write them.
//!
//! Three things stand between such a command line and clap: `--kebab-case` is turned into `--snake_case`
//! ([`spelling`]), flags that mean nothing here are taken out and named ([`idle`], by the table in
//! [`reference`]), and a flag that nobody knows gets the nearest known name ([`nearest`]).

mod idle;
mod nearest;
mod reference;
mod spelling;
mod value;

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, Parser, error::ErrorKind};

use crate::{Error, Result};
use idle::Known;
pub use idle::{Notes, Task, values_of_flags};
pub use reference::Values;
use spelling::snake_case_flags;
pub use value::{below_one, count, not_negative, positive, share, truth};

/// Parses the arguments of a program that takes no flags but its own.
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
    let known = Known { task, own: T::command() };
    let (args, notes) = known.take_idle(snake_case_flags(args))?;
    Ok((from_args(args, &known.names())?, notes))
}

fn from_args<T: Parser>(args: Vec<OsString>, also_known: &[String]) -> Result<T> {
    let matches = negative_values(T::command()).try_get_matches_from(args);
    let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| explain::<T>(error.format(&mut T::command()), also_known))
}

/// Lets `-1` be a value, so that a flag that wants another number can say so.
fn negative_values(command: Command) -> Command {
    let with_values = |arg: Arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(with_values).mut_subcommands(negative_values)
}

/// Turns clap's complaint about an unknown flag into ours, which knows the accepted ones too.
fn explain<T: CommandFactory>(error: clap::Error, also_known: &[String]) -> Error {
    use clap::error::{ContextKind, ContextValue};
    if error.kind() != ErrorKind::UnknownArgument {
        return Error::Flags(error);
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return Error::Flags(error);
    };
    let Some(name) = flag.strip_prefix("--") else { return Error::Flags(error) };
    // clap has looked among the flags of the very subcommand; those of a program without subcommands are ours to look at.
    if let Some(ContextValue::String(suggested)) = error.get(ContextKind::SuggestedArg) {
        return Error::UnknownFlag { flag: flag.clone(), nearest: Some(suggested.clone()) };
    }
    let command = T::command();
    let own = command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned));
    let names: Vec<String> = own.chain(also_known.iter().cloned()).collect();
    let nearest = nearest::nearest(name, names.iter().map(String::as_str)).map(|name| format!("--{name}"));
    Error::UnknownFlag { flag: flag.clone(), nearest }
}
