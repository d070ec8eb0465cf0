//! Takes the flags that have no meaning here out of a command line, and says so.

use std::{collections::BTreeMap, ffi::OsString, fmt};

use clap::{Arg, ArgAction, Command};

use super::reference::{Meaning, OtherFlags, PLAY_FLAGS, REFERENCE_FLAGS, TRAIN_FLAGS, Values};
use super::value::truth;
use crate::{Error, Result, exit};

/// What a program does, and so which of the reference's flags can matter to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The program trains: every flag of training counts.
    Training,
    /// The program plays: how training would be done is of no consequence.
    Playing,
}

impl Task {
    /// The other program that the reference starts with the same flags, and the flags that only that one reads.
    fn other_program(self) -> (&'static str, OtherFlags) {
        match self {
            Self::Training => ("spag-play", PLAY_FLAGS),
            Self::Playing => ("spag-train", TRAIN_FLAGS),
        }
    }

    /// The flags of the program for this task, with the number of their values: what the other program accepts without
    /// effect. A test of each program compares it to [`values_of_flags`].
    pub fn flags(self) -> BTreeMap<String, Values> {
        let flags = match self {
            Self::Training => TRAIN_FLAGS,
            Self::Playing => PLAY_FLAGS,
        };
        flags
            .iter()
            .flat_map(|(values, names)| names.split_whitespace().map(|name| (name.to_owned(), *values)))
            .collect()
    }
}

/// Every long flag of a command, aliases included, with the number of its values.
pub fn values_of_flags(command: &Command) -> BTreeMap<String, Values> {
    let flags = command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    let names = flags.flat_map(|(arg, long)| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        std::iter::once(long).chain(aliases).map(|name| (name.to_owned(), values_of(arg))).collect::<Vec<_>>()
    });
    names.collect()
}

/// The flags that one program knows, in the order in which they are looked up.
pub(crate) struct Known {
    /// What the program does.
    pub task: Task,
    /// The program's own: left for clap.
    pub own: Command,
}

/// What was accepted without effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Flags that mean nothing here, each with the reason.
    idle: Vec<(String, String)>,
    /// Flags, with their values, that ask for what is done anyway.
    always: Vec<String>,
}

impl Notes {
    /// Prints the notes, if any, to stderr.
    pub fn say(&self) {
        if *self != Self::default() {
            exit::note(self);
        }
    }

    /// Adds a flag that turned out to mean nothing after its value was read.
    pub fn add_idle(&mut self, flag: &str, why: impl Into<String>) {
        self.idle.push((format!("--{flag}"), why.into()));
    }
}

/// One line for the flags without effect, and one for those that state the obvious.
impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if !self.idle.is_empty() {
            let idle: Vec<_> = self.idle.iter().map(|(flag, why)| format!("{flag} ({why})")).collect();
            lines.push(format!("note: no effect here: {}", idle.join(", ")));
        }
        if !self.always.is_empty() {
            lines.push(format!("note: no effect, always so here: {}", self.always.join(", ")));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// How a flag that is not the program's own is to be treated.
struct Foreign {
    values: Values,
    meaning: Meaning,
    /// Overrides what `meaning` says: the flag is the sibling's.
    of_sibling: Option<&'static str>,
}

impl Known {
    /// The names of all flags that [`Known::take_idle`] would take out.
    pub(crate) fn names(&self) -> Vec<String> {
        let (_, others) = self.task.other_program();
        let others = others.iter().flat_map(|(_, names)| names.split_whitespace());
        REFERENCE_FLAGS.iter().map(|flag| flag.name).chain(others).map(str::to_owned).collect()
    }

    /// Splits `args` (program name first) into those left for clap and notes on those taken out.
    ///
    /// # Errors
    /// A flag whose value would change the result, or that lacks its value.
    pub(crate) fn take_idle(&self, args: Vec<OsString>) -> Result<(Vec<OsString>, Notes)> {
        let mut kept = Vec::new();
        let mut notes = Notes::default();
        let mut rest = args.into_iter().peekable();
        while let Some(arg) = rest.next() {
            let Some((name, inline, foreign)) = arg.to_str().and_then(|text| self.look_up(text)) else {
                kept.push(arg);
                continue;
            };
            let is_value = |next: &OsString| next.to_str().is_none_or(|text| !is_flag(text));
            let mut values = Vec::from_iter(inline);
            if values.is_empty() {
                match foreign.values {
                    Values::Switch => {
                        let is_truth = |next: &OsString| next.to_str().is_some_and(|text| truth(text).is_ok());
                        values.extend(rest.next_if(is_truth).map(lossy));
                    }
                    Values::One => {
                        let value =
                            rest.next_if(is_value).ok_or_else(|| Error::NoValue { flag: format!("--{name}") })?;
                        values.push(lossy(value));
                    }
                    Values::Many => {
                        while let Some(value) = rest.next_if(is_value) {
                            values.push(lossy(value));
                        }
                    }
                }
            }
            note(&name, &values, &foreign, &mut notes)?;
        }
        Ok((kept, notes))
    }

    /// A flag that is not the program's own but is known: its name, the value after its `=`, and how to treat it.
    fn look_up(&self, arg: &str) -> Option<(String, Option<String>, Foreign)> {
        let flag = arg.strip_prefix("--")?;
        let (name, inline) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if self.own.get_arguments().any(|arg| is_named(arg, name)) {
            return None;
        }
        let foreign = if let Some(known) = REFERENCE_FLAGS.iter().find(|flag| flag.name == name) {
            let meaning = match (self.task, known.meaning) {
                (Task::Playing, Meaning::Only(..) | Meaning::Never(_)) => Meaning::Idle("a setting of training"),
                (_, meaning) => meaning,
            };
            Foreign { values: known.values, meaning, of_sibling: None }
        } else {
            let (program, flags) = self.task.other_program();
            let (values, _) = flags.iter().find(|(_, names)| names.split_whitespace().any(|other| other == name))?;
            Foreign { values: *values, meaning: Meaning::Idle(""), of_sibling: Some(program) }
        };
        Some((name.to_owned(), inline, foreign))
    }
}

/// Whether a flag has this name, or another of the same meaning.
fn is_named(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

fn lossy(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}

/// `--x` and `-x`, but not a negative number nor a lone dash.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && text.len() > 1 && text.parse::<f64>().is_err()
}

fn values_of(arg: &Arg) -> Values {
    match (arg.get_action(), arg.get_num_args()) {
        (ArgAction::SetTrue | ArgAction::SetFalse, _) => Values::Switch,
        (_, Some(range)) if range.min_values() == 0 && range.max_values() == 1 => Values::Switch,
        (_, Some(range)) if range.max_values() > 1 => Values::Many,
        _ => Values::One,
    }
}

/// Records one flag, or refuses its value.
fn note(name: &str, values: &[String], foreign: &Foreign, notes: &mut Notes) -> Result<()> {
    if let Some(program) = foreign.of_sibling {
        notes.add_idle(name, format!("a flag of {program}"));
        return Ok(());
    }
    let shown = match values {
        [] => format!("--{name}"),
        values => format!("--{name} {}", values.join(" ")),
    };
    match foreign.meaning {
        Meaning::Idle(why) => notes.add_idle(name, why),
        Meaning::Only(allowed, why) => {
            // A bare switch means True.
            let given = values.first().map_or("True", String::as_str);
            let fits = values.len() <= 1 && allowed.iter().any(|allowed| same_value(allowed, given));
            if !fits {
                let allowed = allowed.iter().map(|value| if value.is_empty() { "\"\"" } else { value });
                let allowed = allowed.collect::<Vec<_>>().join(" or ");
                return Err(Error::Unsupported { flag: shown, why: why.into(), instead: Some(allowed) });
            }
            notes.always.push(shown);
        }
        Meaning::Never(why) => return Err(Error::Unsupported { flag: shown, why: why.into(), instead: None }),
    }
    Ok(())
}

/// Whether two values mean the same: as text, as numbers (`0`, `0.`), or as truth values (`False`, `0`).
fn same_value(allowed: &str, given: &str) -> bool {
    let as_number = |text: &str| text.parse::<f64>().ok();
    allowed.eq_ignore_ascii_case(given)
        || as_number(allowed).is_some_and(|number| as_number(given) == Some(number))
        || (as_number(allowed).is_none() && truth(allowed).is_ok_and(|wanted| truth(given) == Ok(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    #[command(name = "own", rename_all = "snake_case")]
    #[allow(dead_code, reason = "only the names matter")]
    struct Own {
        #[arg(long)]
        learning_rate: f64,
        #[arg(long)]
        per_device_eval_batch_size: usize,
    }

    fn take(line: &str) -> Result<(String, Notes)> {
        take_for(Task::Training, line)
    }

    fn take_for(task: Task, line: &str) -> Result<(String, Notes)> {
        use clap::CommandFactory;
        let known = Known { task, own: Own::command() };
        let (kept, notes) = known.take_idle(line.split(' ').map(OsString::from).collect())?;
        Ok((kept.into_iter().map(lossy).collect::<Vec<_>>().join(" "), notes))
    }

    #[test]
    fn own_flags_stay_and_known_ones_go() {
        let line = "own --learning_rate 1 --tf32 True --local_rank -1 --label_names a b --remove_unused_columns --per_device_eval_batch_size 2 --optim=adamw_torch x";
        let (kept, notes) = take(line).unwrap();
        assert_eq!(kept, "own --learning_rate 1 --per_device_eval_batch_size 2 x");
        let said = notes.to_string();
        assert_eq!(said.lines().count(), 2, "{said}");
        for name in
            ["--tf32 (", "--local_rank (", "--label_names (", "--remove_unused_columns (", "--optim adamw_torch"]
        {
            assert!(said.contains(name), "{name} in {said}");
        }
    }

    #[test]
    fn flags_of_the_sibling_are_idle() {
        let (kept, notes) = take("own --task_type testing --play_on --learning_rate 2").unwrap();
        assert_eq!(kept, "own --learning_rate 2");
        let expected = "note: no effect here: --task_type (a flag of spag-play), --play_on (a flag of spag-play)";
        assert_eq!(notes.to_string(), expected);
        let (kept, notes) = take_for(Task::Playing, "own --train_data_path a b --learning_rate 2").unwrap();
        assert_eq!(kept, "own --learning_rate 2");
        assert_eq!(notes.to_string(), "note: no effect here: --train_data_path (a flag of spag-train)");
    }

    #[test]
    fn values_that_would_change_the_result_are_refused() {
        for line in [
            "own --padding_side left",
            "own --truncation_side=right",
            "own --label_smoothing_factor 0.1",
            "own --fp16",
            "own --fp16 True",
            "own --optim adafactor",
            "own --lora",
            "own --fsdp full_shard auto_wrap",
            "own --data_seed 7",
        ] {
            let message = take(line).unwrap_err().to_string();
            let flag = line.split([' ', '=']).nth(1).unwrap();
            assert!(message.contains(flag), "{message}");
        }
        assert!(matches!(take("own --optim"), Err(Error::NoValue { .. })));
    }

    #[test]
    fn values_that_say_what_happens_anyway_are_accepted() {
        let line = "own --padding_side right --fp16 False --label_smoothing_factor 0.0 --past_index -1 --adafactor 0 --save_safetensors True";
        assert_eq!(take(line).unwrap().0, "own");
    }

    #[test]
    fn settings_of_training_do_not_matter_to_playing() {
        let line = "own --padding_side left --fp16 --lora";
        let (kept, notes) = take_for(Task::Playing, line).unwrap();
        assert_eq!((kept.as_str(), notes.to_string().matches("a setting of training").count()), ("own", 3));
    }

    #[test]
    fn a_switch_takes_only_a_truth_value() {
        let (kept, _) = take("own --tf32 something").unwrap();
        assert_eq!(kept, "own something");
    }
}
