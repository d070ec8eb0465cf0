//! An evaluation in a folder: models one after another, resumable at every row.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spag_io::{FileLock, Progress};
use spag_model::Engine;
use spag_model::checkpoint::load_config;
use spag_model::tokenizer::BosRule;
use spag_selfplay::checkpoint_fingerprint;

use crate::context::ChatShots;
use crate::error::{Error, Result};
use crate::reasoning::AskReasoning;
use crate::record::{Made, Record};
use crate::results::{ModelResults, row_scores};
use crate::scoring::Scorer;
use crate::task::Task;

/// How a model is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskSettings {
    /// Whether texts begin with BOS.
    pub bos: BosRule,
    /// The most tokens that a model sees; its positions if absent.
    pub max_length: Option<usize>,
    /// The number format of the weights and the kind of device, which a record notes.
    pub arithmetic: String,
    /// The chat template that contexts are written with, if they are chats.
    pub chat_template: Option<String>,
    /// Where the few-shot examples of chats are.
    pub chat_shots: ChatShots,
    /// What of a generated answer is reasoning, which is not looked at.
    pub reasoning: AskReasoning,
}

/// An evaluation of models, in a folder that this process has locked.
///
/// Each model has a folder with a record of its answers to each task, which grows row by row. The same evaluation later answers
/// only the rows that are missing, and writes the same results.
#[derive(Debug)]
pub struct Evaluation {
    folder: PathBuf,
    /// Held for as long as records may be written.
    _lock: FileLock,
}

/// A model in an evaluation, with its records open.
#[derive(Debug)]
pub struct OpenModel {
    name: String,
    model: PathBuf,
    folder: PathBuf,
    tasks: Arc<[Task]>,
    records: Vec<Record>,
    settings: AskSettings,
    max_length: usize,
}

impl Evaluation {
    /// Opens an evaluation in `folder`, which is created if missing.
    ///
    /// # Errors
    /// A folder that cannot be written or is in use.
    pub fn open(folder: &Path) -> Result<Self> {
        let lock = FileLock::try_acquire(folder.join("lock"))?;
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    /// Checks the names of models.
    ///
    /// # Errors
    /// Two equal names, or one that cannot be that of a folder.
    pub fn check_models<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        check_names("model", names)
    }

    /// Opens the records of the model at `model`, a folder or a GGUF file, in `tasks`.
    ///
    /// # Errors
    /// Two tasks of one name, a name that cannot be that of a file, a model that cannot be read, or a record that cannot be
    /// written or is of another model, task or data.
    pub fn model(&self, name: &str, model: &Path, tasks: Arc<[Task]>, settings: &AskSettings) -> Result<OpenModel> {
        check_names("task", tasks.iter().map(Task::name))?;
        let positions = load_config(model)?.architecture.max_position_embeddings;
        let max_length = settings.max_length.unwrap_or(positions).min(positions);
        let fingerprint = checkpoint_fingerprint(model)?;
        let folder = self.folder.join(name);
        let record = |task: &Task| {
            let made = Made {
                model: fingerprint.clone(),
                settings: task.settings.clone(),
                rows: task.items.iter().map(|item| item.digest.clone()).collect(),
                max_length,
                bos: settings.bos.flag(),
                reasoning: settings.reasoning.describe().filter(|_| task.generates()),
                arithmetic: settings.arithmetic.clone(),
            };
            Record::open(&folder.join(format!("record_{}.jsonl", task.name())), &made, task.config.samples())
        };
        let records = tasks.iter().map(record).collect::<Result<_>>()?;
        Ok(OpenModel {
            name: name.to_owned(),
            model: model.to_owned(),
            folder: folder.clone(),
            tasks,
            records,
            settings: settings.clone(),
            max_length,
        })
    }
}

impl OpenModel {
    /// The answers that are missing: one of each row, or its samples.
    pub fn missing(&self) -> usize {
        self.records.iter().map(|record| record.missing().count()).sum()
    }

    /// The most tokens that it sees, for which an engine is to be made.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Answers the missing rows with an engine of this model, whose tokenizer has the BOS rule of the settings. Every answer is on disk before the next step.
    ///
    /// # Errors
    /// A row that cannot be asked, a fault of the engine, or a record that cannot be written. Answers so far are kept.
    pub fn ask(&mut self, engine: &mut Engine, progress: &mut dyn Progress) -> Result<()> {
        let bos = engine.tokenizer().bos();
        let name = self.name.clone();
        let reasoning = &self.settings.reasoning;
        Scorer { tasks: &self.tasks, records: &mut self.records, engine, bos, reasoning }.run(&name, progress)
    }

    /// Closes the records and writes the model's `results.json` and samples.
    ///
    /// # Errors
    /// A row without an answer, or a file that cannot be written.
    pub fn finish(self) -> Result<ModelResults> {
        let answers = self.records.into_iter().map(Record::finish).collect::<Result<Vec<_>>>()?;
        let tasks = &self.tasks;
        let rows: Vec<_> = tasks.iter().zip(&answers).map(|(task, answers)| row_scores(task, answers)).collect();
        let results =
            ModelResults::new(&self.name, &self.model, tasks, &answers, &self.settings, self.max_length, &rows);
        results.write(&self.folder, tasks, &answers, &rows)?;
        Ok(results)
    }
}

/// Checks that names are different and can be parts of file names.
fn check_names<'a>(what: &'static str, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut known: Vec<String> = Vec::new();
    for name in names {
        let wrong = |reason: &str| Err(Error::Name { what, name: name.to_owned(), reason: reason.to_owned() });
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(fits) {
            return wrong("a name has up to 100 letters, digits, `-`, `_` and `.`, and does not begin with `.`");
        }
        // Some file systems do not tell capital letters from small ones.
        let lower = name.to_lowercase();
        if known.contains(&lower) {
            return wrong("it is used twice");
        }
        known.push(lower);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_names;

    #[test]
    fn names_are_those_of_files_and_different() {
        assert!(check_names("task", ["a", "b-1.x_y"]).is_ok());
        for names in [vec!["a", "A"], vec![""], vec!["../x"], vec![".x"], vec!["a b"], vec!["é"]] {
            assert!(check_names("task", names.iter().copied()).is_err(), "{names:?}");
        }
    }
}
