//! The flags of the programs that the reference's scripts start, each of which accepts those of the other.

use clap::{Arg, ArgAction, Command};

use super::reference::{FlagGroup, Meaning, REFERENCE_FLAGS, Values};

/// What a program does; decides which flags of the reference matter to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The program trains.
    Training,
    /// The program plays; settings of training have no effect.
    Playing,
}

impl Task {
    /// The flags that the program for this task accepts beside its own.
    pub(crate) fn foreign_flags(self) -> impl Iterator<Item = FlagGroup> {
        let (written, meaning) = match self {
            Self::Training => (Self::Playing.written_flags(), Meaning::NoEffect("a flag of spag-play")),
            Self::Playing => (Self::Training.written_flags(), Meaning::NoEffect("a flag of spag-train")),
        };
        let others = written.lines().filter_map(move |line| {
            let (values, names) = line.split_once(' ')?;
            let values = Values::ALL.into_iter().find(|kind| kind.name() == values)?;
            Some(FlagGroup { names, values, meaning })
        });
        REFERENCE_FLAGS.iter().copied().chain(others)
    }

    /// The flags of the program for this task, which the other program does not link, as [`list_flags`] writes them.
    const fn written_flags(self) -> &'static str {
        match self {
            Self::Training => include_str!("of_spag_train.txt"),
            Self::Playing => include_str!("of_spag_play.txt"),
        }
    }
}

/// The flags of a command as text: a line for each number of values, `switch`, `one` or `many`, with the names.
pub fn list_flags(command: &Command) -> String {
    let names = |kind: Values| {
        let args = command.get_arguments().filter(move |arg| values_of(arg) == kind);
        args.flat_map(names_of).map(|name| format!(" {name}")).collect::<String>()
    };
    Values::ALL.map(|kind| format!("{}{}\n", kind.name(), names(kind))).concat()
}

/// The long name and the aliases of a flag.
pub(super) fn names_of(arg: &Arg) -> Vec<String> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()).map(str::to_owned).collect()
}

fn values_of(arg: &Arg) -> Values {
    match (arg.get_action(), arg.get_num_args()) {
        (ArgAction::SetTrue | ArgAction::SetFalse, _) => Values::Switch,
        (_, Some(range)) if range.min_values() == 0 && range.max_values() == 1 => Values::Switch,
        (_, Some(range)) if range.max_values() > 1 => Values::Many,
        _ => Values::One,
    }
}
