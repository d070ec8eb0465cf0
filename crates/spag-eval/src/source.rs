//! Tasks from their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use spag_chat::{PromptEncoder, TemplateKwargs};
use spag_io::{quote, read_text};
use spag_model::checkpoint::load_tokenizer;

use crate::config::TaskConfig;
use crate::context::{ChatShots, ContextFormat};
use crate::error::{Error, Result};
use crate::rows;
use crate::selection::{Chosen, MissingData, MissingTask, choose, refuse};
use crate::shuffle::shuffle;
use crate::task::{Beside, Task};
use crate::task_file::read_tasks;
use crate::template::{self, Fields};
use crate::tiny;

/// Bytes of a file with a description, at most.
const MAX_DESCRIPTION: u64 = 1 << 22;

/// Where tasks are, and how many of their rows are taken.
#[derive(Clone, Copy, Debug)]
pub struct TaskSource<'a> {
    /// `tiny` or `tiny-think` for tasks of the small world, else a TOML file.
    pub tasks: &'a Path,
    /// The folder that data are named relative to; that of the file if absent.
    pub data_dir: Option<&'a Path>,
    /// The first rows of each task only; all if absent.
    pub limit: Option<usize>,
    /// Names of the tasks that are taken, or of their groups, in which `*` stands for any characters; all if empty.
    pub only: &'a [String],
    /// What happens to tasks whose files are missing.
    pub missing: MissingData,
}

impl<'a> TaskSource<'a> {
    /// The first `limit` rows of all tasks, whose files must be there.
    pub fn new(tasks: &'a Path, data_dir: Option<&'a Path>, limit: Option<usize>) -> Self {
        Self { tasks, data_dir, limit, only: &[], missing: MissingData::Refused }
    }

    /// The tasks, in order, with contexts that are plain texts.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid, and a row that does not fit its task; the error names the file and the row.
    pub fn load(&self) -> Result<Arc<[Task]>> {
        self.load_with(ContextFormat::Plain)
    }

    /// The tasks with contexts that are chats in the template of the model at `model`, a folder or a GGUF file, as
    /// `--apply_chat_template` of lm-evaluation-harness makes them, with these variables of the template and few-shot examples as
    /// `shots` says; and the template, with the variables if there are some.
    ///
    /// # Errors
    /// As [`TaskSource::load`]; and a model without a template, or one that refuses the chat of a row.
    pub fn load_as_chats(
        &self,
        model: &Path,
        kwargs: &TemplateKwargs,
        shots: ChatShots,
    ) -> Result<(Arc<[Task]>, String)> {
        let encoder = PromptEncoder::new(load_tokenizer(model)?).with_kwargs(kwargs.clone());
        let template = encoder.template()?;
        let mut described = template.source().to_owned();
        if !kwargs.is_empty() {
            described.push_str(&format!("\n{kwargs}"));
        }
        Ok((self.load_with(ContextFormat::Chat(template, kwargs, shots))?, described))
    }

    fn load_with(&self, format: ContextFormat<'_>) -> Result<Arc<[Task]>> {
        if tiny::is_built_in(self.tasks) {
            let (source, mut all) = (PathBuf::from("the built-in tasks"), tiny::tasks(self.tasks)?);
            let chosen = self.choose(all.iter().map(|(config, _)| config.clone()).collect())?;
            all.retain(|(config, _)| chosen.iter().any(|chosen| chosen.config.name == config.name));
            return all
                .into_iter()
                .map(|(config, rows)| Task::new(config, &source, rows, Beside::default(), self.limit, format))
                .collect();
        }
        let Found { there, missing } = self.found()?;
        if !missing.is_empty() && (self.missing == MissingData::Refused || there.is_empty()) {
            return Err(refuse(&missing));
        }
        there.into_iter().map(|(chosen, files)| self.load_task(chosen, files, format)).collect()
    }

    /// The chosen tasks whose files are missing. Those of the small world have none.
    ///
    /// # Errors
    /// A file of tasks that cannot be read or is invalid, or a name in `only` that no task has.
    pub fn missing(&self) -> Result<Vec<MissingTask>> {
        if tiny::is_built_in(self.tasks) {
            return Ok(Vec::new());
        }
        Ok(self.found()?.missing)
    }

    /// The chosen tasks of a file.
    fn found(&self) -> Result<Found> {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for chosen in self.choose(read_tasks(self.tasks)?)? {
            let files = self.files(&chosen)?;
            let absent = files.missing();
            match absent.is_empty() {
                true => there.push((chosen, files)),
                false => missing.push(MissingTask { name: chosen.config.name, files: absent }),
            }
        }
        Ok(Found { there, missing })
    }

    fn choose(&self, all: Vec<TaskConfig>) -> Result<Vec<Chosen>> {
        choose(all, self.only).map_err(|reason| Error::tasks(self.tasks, reason))
    }

    /// The files of a task.
    fn files(&self, Chosen { config, subtask }: &Chosen) -> Result<Files> {
        let folder = self.data_dir.or_else(|| self.tasks.parent()).unwrap_or(Path::new(""));
        let variables = variables(subtask.as_deref());
        let path = |template: &String| {
            let wrong = |what: String| Error::tasks(self.tasks, format!("task `{}`: {what}", quote(&config.name)));
            template::literal(template, &variables).map(|file| folder.join(file)).map_err(wrong)
        };
        let shots = config.few_shot.as_ref().filter(|shots| shots.number > 0);
        Ok(Files {
            rows: path(&config.file)?,
            shots: shots.and_then(|shots| shots.file.as_ref()).map(path).transpose()?,
            description: config.description_file.as_ref().map(path).transpose()?,
        })
    }

    fn load_task(&self, chosen: Chosen, files: Files, format: ContextFormat<'_>) -> Result<Task> {
        let Chosen { config, subtask } = chosen;
        let variables = variables(subtask.as_deref());
        let read = |file: &Path| {
            let mut kept = Vec::new();
            for mut row in rows::read(file, &config.columns)? {
                let number = row.number;
                let wrong = |reason| {
                    let task = config.name.clone();
                    Error::Row { path: file.to_owned(), row: number, task, reason }
                };
                rows::replace(&mut row.fields, &config.replace);
                row.fields.extend(variables.clone());
                if !asks(config.only.as_deref(), &row.fields).map_err(wrong)? {
                    continue;
                }
                if let Some(settings) = &config.shuffle {
                    shuffle(settings, &mut row.fields).map_err(wrong)?;
                }
                kept.push(row);
            }
            if kept.is_empty() {
                return Err(Error::tasks(file, format!("task `{}`: `only` leaves no row", quote(&config.name))));
            }
            Ok::<_, Error>(kept)
        };
        let rows = read(&files.rows)?;
        let shots = files.shots.map(|file| Ok::<_, Error>((read(&file)?, file))).transpose()?;
        let description = match files.description {
            Some(file) => Some(read_text(file, MAX_DESCRIPTION)?.trim_end().to_owned()),
            None => None,
        };
        Task::new(config, &files.rows, rows, Beside { shots, description }, self.limit, format)
    }
}

/// Whether a row with these fields is asked.
fn asks(only: Option<&str>, fields: &Fields) -> Result<bool, String> {
    let Some(template) = only else { return Ok(true) };
    match template::value(template, fields).map_err(|why| format!("only: {why}"))? {
        Value::Bool(asked) => Ok(asked),
        other => Err(format!("only: `{}` is {other}, not true or false", quote(template))),
    }
}

/// Chosen tasks by whether their files are there.
struct Found {
    there: Vec<(Chosen, Files)>,
    missing: Vec<MissingTask>,
}

/// The files of a task.
struct Files {
    rows: PathBuf,
    shots: Option<PathBuf>,
    description: Option<PathBuf>,
}

impl Files {
    fn missing(&self) -> Vec<PathBuf> {
        let all = [Some(&self.rows), self.shots.as_ref(), self.description.as_ref()];
        all.into_iter().flatten().filter(|file| !file.exists()).cloned().collect()
    }
}

/// What templates of file names, and rows, know of a subtask.
fn variables(subtask: Option<&str>) -> Fields {
    subtask.map(|subtask| ("subtask".to_owned(), subtask.into())).into_iter().collect()
}
