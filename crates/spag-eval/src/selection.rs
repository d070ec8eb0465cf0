//! Which tasks of a file are taken: those of the chosen names, whose data are there.

use std::path::PathBuf;

use spag_io::quote;

use crate::config::TaskConfig;
use crate::error::{Error, Result};

/// What happens to tasks whose files are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingData {
    /// An error names all missing files.
    #[default]
    Refused,
    /// The tasks are left out.
    LeftOut,
}

/// A task whose files are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTask {
    /// Its name.
    pub name: String,
    /// The missing files.
    pub files: Vec<PathBuf>,
}

/// A task of a file, or one of its subtasks.
pub(crate) struct Chosen {
    pub(crate) config: TaskConfig,
    pub(crate) subtask: Option<String>,
}

/// The tasks and subtasks that a pattern of `only` matches by their own name or by that of their group; all without patterns.
///
/// # Errors
/// A pattern that matches nothing.
pub(crate) fn choose(all: Vec<TaskConfig>, only: &[String]) -> Result<Vec<Chosen>, String> {
    let all: Vec<Chosen> = all.into_iter().flat_map(expand).collect();
    let is_of = |chosen: &Chosen, pattern: &str| {
        matches(pattern, &chosen.config.name)
            || chosen.config.group.as_ref().is_some_and(|group| matches(pattern, group))
    };
    if let Some(none) = only.iter().find(|pattern| !all.iter().any(|chosen| is_of(chosen, pattern))) {
        let mut names: Vec<&str> =
            all.iter().map(|chosen| chosen.config.group.as_ref().unwrap_or(&chosen.config.name).as_str()).collect();
        names.dedup();
        return Err(format!("no task is called `{}`; there are {}", quote(none), quote(&names.join(", "))));
    }
    Ok(all.into_iter().filter(|chosen| only.is_empty() || only.iter().any(|pattern| is_of(chosen, pattern))).collect())
}

/// A task for each subtask, with its name.
fn expand(config: TaskConfig) -> Vec<Chosen> {
    if config.subtasks.is_empty() {
        return vec![Chosen { config, subtask: None }];
    }
    let of = |subtask: &String| {
        let name = format!("{}_{subtask}", config.name);
        let group = Some(config.group.clone().unwrap_or_else(|| config.name.clone()));
        let alias = Some(subtask.clone());
        let config = TaskConfig { name, group, alias, subtasks: Vec::new(), ..config.clone() };
        Chosen { config, subtask: Some(subtask.clone()) }
    };
    config.subtasks.iter().map(of).collect()
}

/// Whether a name is a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = left.split_once(part) else { return false };
        left = after;
    }
    left.ends_with(last)
}

/// The error of tasks whose files are missing.
pub(crate) fn refuse(tasks: &[MissingTask]) -> Error {
    let mut files: Vec<String> =
        tasks.iter().flat_map(|task| &task.files).map(|file| file.display().to_string()).collect();
    files.sort();
    files.dedup();
    let names = tasks.iter().map(|task| task.name.clone()).collect::<Vec<_>>().join(", ");
    Error::Missing { count: files.len(), files: quote(&files.join(", ")), tasks: quote(&names) }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name) in [("arc_*", "arc_easy"), ("*", ""), ("a*c*e", "abcde"), ("arc", "arc"), ("a**b", "ab")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("arc", "arc_easy"), ("arc_*", "piqa"), ("a*c*e", "abcd"), ("ab*b", "ab"), ("", "a")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
