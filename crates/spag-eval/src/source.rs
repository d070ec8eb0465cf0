//! Tasks from their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spag_chat::PromptEncoder;
use spag_io::{quote, read_text};
use spag_model::load_tokenizer;

use crate::config::{FewShotConfig, TaskConfig};
use crate::context::ContextFormat;
use crate::error::{Error, Result};
use crate::rows;
use crate::task::{Beside, Task};
use crate::template::{Fields, Templates};
use crate::tiny;

/// Bytes of a file with a description, at most.
const MAX_DESCRIPTION: u64 = 1 << 22;

/// Where tasks are, and how many of their rows are taken.
#[derive(Clone, Copy, Debug)]
pub struct TaskSource<'a> {
    /// `tiny` for the tasks of the small world, else a TOML file.
    pub tasks: &'a Path,
    /// The folder that data are named relative to; that of the file if absent.
    pub data_dir: Option<&'a Path>,
    /// The first rows of each task only; all if absent.
    pub limit: Option<usize>,
}

impl TaskSource<'_> {
    /// The tasks, in order, with contexts that are plain texts.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid, and a row that does not fit its task; the error names the file and the row.
    pub fn load(&self) -> Result<Arc<[Task]>> {
        self.load_with(ContextFormat::Plain)
    }

    /// The tasks with contexts that are chats in the template of the model at `model`, a folder or a GGUF file, as
    /// `--apply_chat_template` of lm-evaluation-harness makes them; and the template.
    ///
    /// # Errors
    /// As [`TaskSource::load`]; and a model without a template, or one that refuses the chat of a row.
    pub fn load_as_chats(&self, model: &Path) -> Result<(Arc<[Task]>, String)> {
        let encoder = PromptEncoder::new(load_tokenizer(model)?);
        let template = encoder.template()?;
        Ok((self.load_with(ContextFormat::Chat(template))?, template.source().to_owned()))
    }

    fn load_with(&self, format: ContextFormat<'_>) -> Result<Arc<[Task]>> {
        if self.tasks == Path::new(tiny::NAME) {
            let source = PathBuf::from("the built-in tasks");
            return tiny::tasks()?
                .into_iter()
                .map(|(config, rows)| Task::new(config, &source, rows, Beside::default(), self.limit, format))
                .collect();
        }
        let mut loaded = Vec::new();
        for config in TaskConfig::read(self.tasks)? {
            for (config, subtask) in expand(config) {
                loaded.push(self.load_task(config, subtask.as_deref(), format)?);
            }
        }
        Ok(loaded.into())
    }

    fn load_task(&self, config: TaskConfig, subtask: Option<&str>, format: ContextFormat<'_>) -> Result<Task> {
        let (tasks, limit) = (self.tasks, self.limit);
        let folder = self.data_dir.or_else(|| tasks.parent()).unwrap_or(Path::new(""));
        let wrong = |what: String| Error::tasks(tasks, format!("task `{}`: {what}", quote(&config.name)));
        let variables: Fields = subtask.map(|subtask| ("subtask".to_owned(), subtask.into())).into_iter().collect();
        let templates = Templates::new();
        let path =
            |template: &str| templates.literal(template, &variables).map(|file| folder.join(file)).map_err(wrong);
        let file = path(&config.file)?;
        let read = |file: &Path| {
            let mut rows = rows::read(file, &config.columns)?;
            for row in &mut rows {
                rows::replace(&mut row.fields, &config.replace);
                row.fields.extend(variables.clone());
            }
            Ok::<_, Error>(rows)
        };
        let rows = read(&file)?;
        let shots = match config.few_shot.as_ref().filter(|shots| shots.number > 0) {
            Some(FewShotConfig { file: Some(file), .. }) => {
                let file = path(file)?;
                Some((read(&file)?, file))
            }
            _ => None,
        };
        let description = match &config.description_file {
            Some(file) => Some(read_text(path(file)?, MAX_DESCRIPTION)?.trim_end().to_owned()),
            None => None,
        };
        Task::new(config, &file, rows, Beside { shots, description }, limit, format)
    }
}

/// A task for each subtask, with its name.
fn expand(config: TaskConfig) -> Vec<(TaskConfig, Option<String>)> {
    if config.subtasks.is_empty() {
        return vec![(config, None)];
    }
    let of = |subtask: &String| {
        let name = format!("{}_{subtask}", config.name);
        let group = Some(config.group.clone().unwrap_or_else(|| config.name.clone()));
        let alias = Some(subtask.clone());
        (TaskConfig { name, group, alias, subtasks: Vec::new(), ..config.clone() }, Some(subtask.clone()))
    };
    config.subtasks.iter().map(of).collect()
}
