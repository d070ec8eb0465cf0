//! Files of tasks: `[[task]]` tables.

use std::path::Path;

use serde::Deserialize;
use spag_io::{quote, read_text};
use toml::{Table, Value};

use crate::config::TaskConfig;
use crate::error::{Error, Result};

/// Bytes of a file of tasks, at most.
const MAX_BYTES: u64 = 1 << 22;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TasksFile {
    /// Settings of the tasks that do not have them.
    default: Option<TaskConfig>,
    task: Vec<TaskConfig>,
}

/// Reads the tasks of a file, with the settings of its table `[default]` where a task has none of its own.
///
/// # Errors
/// The file cannot be read, is not TOML of this shape, or has a task that lacks a key or has one that does not belong to its kind. The
/// error names the line or the task.
pub(crate) fn read_tasks(path: &Path) -> Result<Vec<TaskConfig>> {
    let text = read_text(path, MAX_BYTES)?;
    let TasksFile { default, task: mut tasks } = toml::from_str(&text).map_err(|error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count());
        let place = line.map_or(String::new(), |line| format!("line {}: ", line + 1));
        Error::tasks(path, format!("{place}{}", quote(error.message())))
    })?;
    if tasks.is_empty() {
        return Err(Error::tasks(path, "there are no tasks; add a [[task]]"));
    }
    if let Some(default) = default {
        for task in &mut tasks {
            *task = merged(&default, task).map_err(|why| Error::tasks(path, why))?;
        }
    }
    tasks.iter().try_for_each(|task| task.check(path))?;
    Ok(tasks)
}

/// A task with the settings of another one where it has none.
fn merged(default: &TaskConfig, task: &TaskConfig) -> std::result::Result<TaskConfig, String> {
    let settings = |task: &TaskConfig| {
        let mut settings = Table::try_from(task).map_err(|error| error.to_string())?;
        settings.retain(|_, value| !matches!(value, Value::String(text) if text.is_empty()));
        Ok::<_, String>(settings)
    };
    let mut merged = settings(default)?;
    merged.extend(settings(task)?);
    merged.try_into().map_err(|error: toml::de::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    fn read(text: &str) -> Result<Vec<TaskConfig>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.toml");
        std::fs::write(&path, text).unwrap();
        read_tasks(&path)
    }

    #[test]
    fn invalid_tasks_are_refused_with_the_task_or_the_line() {
        let base = "[[task]]\nname = 'a'\nfile = 'a.jsonl'\n";
        for (rest, said) in [
            ("prompt = 'q'\n", "needs `choices` and `answer`"),
            ("prompt = 'q'\nchoices = 'c'\n", "needs `answer`"),
            ("prompt = 'q'\nchoices = ['c']\nanswer = '0'\n", "at least 2"),
            ("prompt = 'q'\nchoices = 'c'\nanswer = 'a'\nuntil = ['x']\n", "`until` does not belong"),
            ("prompt = 'q'\ntarget = 't'\nmetrics = ['acc']\n", "`acc` is no metric"),
            ("prompt = 'q'\ntarget = 't'\nmetrics = ['accuracy']\n", "line 6"),
            ("prompt = 'q'\ntarget = 't'\nmax_new_tokens = 0\n", "max_new_tokens is 0"),
            ("text = 't'\nprompt = 'q'\n", "`prompt` does not belong"),
            ("promt = 'q'\n", "line 4: unknown field `promt`"),
            ("prompt = 'q'\ntarget = 't'\n[task.few_shot]\nnumber = 2000\n", "few_shot.number is 2000"),
            ("prompt = 'q'\ntarget = 't'\n[task.few_shot]\nnumber = -1\n", "line 7"),
        ] {
            let error = read(&format!("{base}{rest}")).unwrap_err().to_string();
            assert!(error.contains(said), "{rest}: {error}");
        }
        assert!(read("task = []").unwrap_err().to_string().contains("no tasks"));
        assert!(read("[[task]]\nfile = 'a'\n").unwrap_err().to_string().contains("no name"));
    }

    #[test]
    fn kinds_have_the_metrics_of_lm_evaluation_harness() {
        let of = |text: &str| read(&format!("[[task]]\nname = 'a'\nfile = 'a'\n{text}")).unwrap()[0].metrics().to_vec();
        assert_eq!(of("prompt = 'q'\nchoices = 'c'\nanswer = 'a'"), [Metric::Acc, Metric::AccNorm]);
        assert_eq!(of("prompt = 'q'\ntarget = 'c'"), [Metric::ExactMatch]);
        assert_eq!(of("choices = 'c'\nanswer = 'a'\ncontinuation = 'b'\nmetrics = ['mrr']"), [Metric::Mrr]);
    }

    #[test]
    fn tasks_have_the_defaults_that_they_do_not_set() {
        let tasks = read(
            "[default]\nfile = '{{subtask}}'\nprompt = 'q'\ntarget = 't'\nmax_new_tokens = 4\nuntil = ['.']\n\
             filter = [{ name = 'a', regex = 'x' }]\n[[task]]\nname = 'one'\n[[task]]\nname = 'two'\nfile = 'f'\nmax_new_tokens = 9\n\
             filter = { name = 'b', words = ['y'] }\n",
        )
        .unwrap();
        let alone = read(
            "[[task]]\nname = 'one'\nfile = '{{subtask}}'\nprompt = 'q'\ntarget = 't'\nmax_new_tokens = 4\nuntil = ['.']\n\
             filter = { name = 'a', regex = 'x' }\n",
        );
        assert_eq!(tasks[0], alone.unwrap()[0]);
        assert_eq!((tasks[1].file.as_str(), tasks[1].max_new_tokens, tasks[1].until.len()), ("f", Some(9), 1));
        let error = read("[default]\nname = 'a'\ntext = 't'\n[[task]]\nprompt = 'q'\n").unwrap_err().to_string();
        assert!(error.contains("`a`") && error.contains("no file"), "{error}");
        assert!(read("[default]\npromt = 'q'\n[[task]]\n").unwrap_err().to_string().contains("line 2"));
    }
}
