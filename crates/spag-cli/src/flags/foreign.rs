//! Removes the flags of the reference that a program does not have from a command line.

use std::{ffi::OsString, fmt};

use clap::Command;

use super::programs::{Task, names_of};
use super::reference::{FlagGroup, Meaning, Values};
use super::value::truth;
use crate::{Error, Result, exit};

/// The flags that were accepted without effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Flags without effect, each with the reason.
    no_effect: Vec<String>,
    /// Flags, with their values, that state what happens anyway.
    always: Vec<String>,
}

impl Notes {
    /// Prints the notes, if any, to stderr.
    pub fn print(&self) {
        if *self != Self::default() {
            exit::note(self);
        }
    }

    /// Adds a flag that has no effect.
    pub fn add(&mut self, flag: &str, why: &str) {
        self.no_effect.push(format!("--{flag} ({why})"));
    }
}

/// One line for the flags without effect, and one for those that state what happens anyway.
impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if !self.no_effect.is_empty() {
            lines.push(format!("note: no effect here: {}", self.no_effect.join(", ")));
        }
        if !self.always.is_empty() {
            lines.push(format!("note: no effect, always so here: {}", self.always.join(", ")));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// Splits `args` (program name first) into those for clap and notes on those removed. `own` is the command of the
/// program for `task`.
///
/// # Errors
/// A flag whose value would change the result, or that lacks its value.
pub(crate) fn remove_foreign(task: Task, own: &Command, args: Vec<OsString>) -> Result<(Vec<OsString>, Notes)> {
    let mut kept = Vec::new();
    let mut notes = Notes::default();
    let mut rest = args.into_iter().peekable();
    while let Some(arg) = rest.next() {
        let Some((name, inline, group)) = arg.to_str().and_then(|text| look_up(task, own, text)) else {
            kept.push(arg);
            continue;
        };
        let is_value = |next: &OsString| next.to_str().is_none_or(|text| !is_flag(text));
        let mut values = Vec::from_iter(inline);
        if values.is_empty() {
            match group.values {
                Values::Switch => {
                    let is_truth = |next: &OsString| next.to_str().is_some_and(|text| truth(text).is_ok());
                    values.extend(rest.next_if(is_truth).map(lossy));
                }
                Values::One => {
                    let value = rest.next_if(is_value).ok_or_else(|| Error::NoValue { flag: format!("--{name}") })?;
                    values.push(lossy(value));
                }
                Values::Many => {
                    while let Some(value) = rest.next_if(is_value) {
                        values.push(lossy(value));
                    }
                }
            }
        }
        note(&name, &values, group.meaning, &mut notes)?;
    }
    Ok((kept, notes))
}

/// Looks up a flag that is not among `own`: its name, the value after its `=`, and its group.
fn look_up(task: Task, own: &Command, arg: &str) -> Option<(String, Option<String>, FlagGroup)> {
    let flag = arg.strip_prefix("--")?;
    let (name, inline) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (flag, None),
    };
    if own.get_arguments().any(|arg| names_of(arg).iter().any(|own| own == name)) {
        return None;
    }
    let mut group = task.foreign_flags().find(|group| group.names.split_whitespace().any(|other| other == name))?;
    if task == Task::Playing && !matches!(group.meaning, Meaning::NoEffect(_)) {
        group.meaning = Meaning::NoEffect("a setting of training");
    }
    Some((name.to_owned(), inline, group))
}

fn lossy(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}

/// `--x` and `-x`, but neither a negative number nor a lone dash.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && text.len() > 1 && text.parse::<f64>().is_err()
}

/// Records a flag or rejects its value.
fn note(name: &str, values: &[String], meaning: Meaning, notes: &mut Notes) -> Result<()> {
    let flag = std::iter::once(format!("--{name}")).chain(values.iter().cloned()).collect::<Vec<_>>().join(" ");
    match meaning {
        Meaning::NoEffect(why) => notes.add(name, why),
        Meaning::Only(allowed, why) => {
            // A switch without a value means True.
            let given = values.first().map_or("True", String::as_str);
            if values.len() > 1 || !allowed.iter().any(|allowed| same_value(allowed, given)) {
                let allowed = allowed.iter().map(|value| if value.is_empty() { "\"\"" } else { value });
                let instead = Some(allowed.collect::<Vec<_>>().join(" or "));
                return Err(Error::Unsupported { flag, why: why.into(), instead });
            }
            notes.always.push(flag);
        }
        Meaning::Unsupported(why) => return Err(Error::Unsupported { flag, why: why.into(), instead: None }),
    }
    Ok(())
}

/// Whether two values are equal as text, as numbers (`0`, `0.`) or as truth values (`False`, `0`).
fn same_value(allowed: &str, given: &str) -> bool {
    let as_number = |text: &str| text.parse::<f64>().ok();
    allowed.eq_ignore_ascii_case(given)
        || as_number(allowed).is_some_and(|number| as_number(given) == Some(number))
        || (as_number(allowed).is_none() && truth(allowed).is_ok_and(|wanted| truth(given) == Ok(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

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
        let (kept, notes) = remove_foreign(task, &Own::command(), line.split(' ').map(OsString::from).collect())?;
        Ok((kept.into_iter().map(lossy).collect::<Vec<_>>().join(" "), notes))
    }

    #[test]
    fn own_flags_are_kept_and_foreign_ones_removed() {
        let line = "own --learning_rate 1 --tf32 True --local_rank -1 --label_names a b --remove_unused_columns --per_device_eval_batch_size 2 --lr_scheduler_kwargs={} x";
        let (kept, notes) = take(line).unwrap();
        assert_eq!(kept, "own --learning_rate 1 --per_device_eval_batch_size 2 x");
        let text = notes.to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
        for name in
            ["--tf32 (", "--local_rank (", "--label_names (", "--remove_unused_columns (", "--lr_scheduler_kwargs {}"]
        {
            assert!(text.contains(name), "{name} in {text}");
        }
    }

    #[test]
    fn flags_of_the_other_program_have_no_effect() {
        let (kept, notes) = take("own --task_type testing --play_on --learning_rate 2").unwrap();
        assert_eq!(kept, "own --learning_rate 2");
        let expected = "note: no effect here: --task_type (a flag of spag-play), --play_on (a flag of spag-play)";
        assert_eq!(notes.to_string(), expected);
        let (kept, notes) = take_for(Task::Playing, "own --train_data_path a b --learning_rate 2").unwrap();
        assert_eq!(kept, "own --learning_rate 2");
        assert_eq!(notes.to_string(), "note: no effect here: --train_data_path (a flag of spag-train)");
    }

    #[test]
    fn values_that_would_change_the_result_are_rejected() {
        for line in [
            "own --padding_side left",
            "own --truncation_side=right",
            "own --label_smoothing_factor 0.1",
            "own --fp16",
            "own --fp16 True",
            "own --adafactor True",
            "own --lora",
            "own --fsdp full_shard auto_wrap",
            "own --data_seed 7",
        ] {
            let message = take(line).unwrap_err().to_string();
            let flag = line.split([' ', '=']).nth(1).unwrap();
            assert!(message.contains(flag), "{message}");
        }
        assert!(matches!(take("own --lr_scheduler_kwargs"), Err(Error::NoValue { .. })));
    }

    #[test]
    fn values_that_state_what_happens_anyway_are_accepted() {
        let line = "own --padding_side right --fp16 False --label_smoothing_factor 0.0 --past_index -1 --adafactor 0 --save_safetensors True";
        assert_eq!(take(line).unwrap().0, "own");
    }

    #[test]
    fn settings_of_training_have_no_effect_on_playing() {
        let line = "own --padding_side left --fp16 --lora";
        let (kept, notes) = take_for(Task::Playing, line).unwrap();
        assert_eq!((kept.as_str(), notes.to_string().matches("a setting of training").count()), ("own", 3));
    }

    #[test]
    fn a_switch_takes_only_a_truth_value() {
        let (kept, _) = take("own --tf32 something").unwrap();
        assert_eq!(kept, "own something");
    }

    #[test]
    fn reasons_are_true_for_any_number_of_ranks() {
        let (_, notes) = take("own --ddp_backend nccl --split_batches True --save_on_each_node False").unwrap();
        let text = notes.to_string();
        assert!(text.contains("--ddp_backend (the device selects the backend: NCCL for GPUs, TCP for CPUs)"), "{text}");
        assert!(!text.contains("one process"), "{text}");
    }
}
