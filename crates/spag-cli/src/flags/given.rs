//! Settings of which a command line gives some.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The flags of `T` that a command line gives. Those that it leaves out have values from elsewhere, such as a file.
#[derive(Debug)]
pub struct Given<T> {
    flags: ArgMatches,
    of: PhantomData<T>,
}

impl<T: FromArgMatches> Given<T> {
    /// The settings with what the command line gives in place of what is below.
    ///
    /// # Errors
    /// A value that the type of its setting does not have.
    pub fn over(mut self, mut below: T) -> Result<T, clap::Error> {
        below.update_from_arg_matches_mut(&mut self.flags)?;
        Ok(below)
    }
}

impl<T: Args> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = matches.clone();
        for arg in T::augment_args(Command::new("flags")).get_arguments() {
            let id = arg.get_id().as_str();
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                // Fails for a flag that the command has not, which has no value either.
                let _ = flags.try_clear_id(id);
            }
        }
        Ok(Self { flags, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Args> Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Args, Clone, Debug, PartialEq)]
    struct Settings {
        #[arg(long, default_value_t = 1)]
        steps: usize,
        #[arg(long, default_value_t = 2)]
        samples: usize,
        #[arg(long)]
        seed: Option<usize>,
        #[command(flatten)]
        inner: Inner,
    }

    #[derive(Args, Clone, Debug, PartialEq)]
    struct Inner {
        #[arg(long, default_value = "a")]
        name: String,
    }

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        given: Given<Settings>,
    }

    #[test]
    fn a_flag_wins_even_with_the_value_of_its_default() {
        let file = Settings { steps: 7, samples: 8, seed: Some(9), inner: Inner { name: "b".into() } };
        let of = |line: &str| Line::parse_from(line.split(' ')).given.over(file.clone()).unwrap();
        assert_eq!(of("x"), file);
        assert_eq!(of("x --steps 1 --seed 3"), Settings { steps: 1, seed: Some(3), ..file.clone() });
        assert_eq!(of("x --name a").inner.name, "a");
    }
}
