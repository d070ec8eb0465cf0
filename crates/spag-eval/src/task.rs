//! Tasks with their rows: what is asked of a model, and the right answers.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use spag_io::{ChatRole, quote, sha256};

use crate::answer_text::AnswerReader;
use crate::config::{Kind, Listed, TaskConfig};
use crate::context::{ContextFormat, Part};
use crate::error::{Error, Result};
use crate::few_shot::FewShot;
use crate::filter::Texts;
use crate::rows::Row;
use crate::template::{self, Fields};

/// A task with its rows.
#[derive(Debug)]
pub struct Task {
    /// Where its rows come from.
    pub(crate) path: PathBuf,
    pub(crate) config: TaskConfig,
    pub(crate) kind: Kind,
    pub(crate) items: Vec<Item>,
    /// Rows of the data, of which a limit may have left some out.
    pub(crate) original: usize,
    pub(crate) reader: AnswerReader,
    /// SHA-256 of the settings that decide the answers of a model.
    pub(crate) settings: String,
}

/// A row of a task.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The row in its file, from 1.
    pub(crate) row: usize,
    pub(crate) fields: Fields,
    pub(crate) question: Question,
    /// What each filter looks for in answers.
    pub(crate) texts: Vec<Texts>,
    /// The share of right answers that guessing has, if known.
    chance: Option<f64>,
    /// Sixteen digits of the SHA-256 of the question.
    pub(crate) digest: String,
}

/// What a row asks of a model.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Question {
    /// The likelihoods of continuations, each after its context.
    Choice {
        /// (context, continuation) of each choice.
        pairs: Vec<(String, String)>,
        /// The choices without delimiters.
        choices: Vec<String>,
        answer: usize,
    },
    Continuation {
        context: String,
        continuation: String,
    },
    Rolling {
        text: String,
    },
    Generated {
        context: String,
        target: String,
    },
}

/// What comes from other files than the data of a task.
#[derive(Default)]
pub(crate) struct Beside {
    /// Rows for few-shot examples, with their file.
    pub(crate) shots: Option<(Vec<Row>, PathBuf)>,
    /// The text before the examples.
    pub(crate) description: Option<String>,
}

impl Task {
    /// A task with the rows of `path`.
    pub(crate) fn new(
        config: TaskConfig,
        path: &Path,
        rows: Vec<Row>,
        beside: Beside,
        limit: Option<usize>,
        format: ContextFormat<'_>,
    ) -> Result<Self> {
        let Beside { shots, description } = beside;
        let in_task = |what: String| Error::tasks(path, format!("task `{}`: {what}", quote(&config.name)));
        let Some(kind) = config.kind() else { return Err(in_task("it asks nothing".into())) };
        let reader = AnswerReader::new(config.filter.as_ref(), config.exact_match.as_ref()).map_err(in_task)?;
        let original = rows.len();
        let shots = match (config.few_shot.as_ref().filter(|shots| shots.number > 0), shots) {
            (None, _) => None,
            (Some(few), Some((rows, path))) => Some(FewShot::new(few, &path, rows, false)?),
            (Some(few), None) if few.rows.is_empty() => Some(FewShot::new(few, path, rows.clone(), true)?),
            (Some(few), None) => {
                let rows = few.rows.iter().cloned().enumerate().map(|(i, fields)| Row { number: i + 1, fields });
                Some(FewShot::new(few, path, rows.collect(), false)?)
            }
        };
        let mut maker = ItemMaker { config: &config, kind, shots, description, format };
        let mut items = Vec::with_capacity(rows.len().min(limit.unwrap_or(usize::MAX)));
        for row in rows.into_iter().take(limit.unwrap_or(usize::MAX)) {
            let wrong = |reason: String| {
                let task = config.name.clone();
                Error::Row { path: path.to_owned(), row: row.number, task, reason }
            };
            let question = maker.question(&row).map_err(wrong)?;
            let texts = reader.texts(&row.fields).map_err(wrong)?;
            let chance = chance(&config, &question, &row.fields).map_err(wrong)?;
            let digest = digest(&question, path)?.chars().take(16).collect();
            items.push(Item { row: row.number, fields: row.fields, question, texts, chance, digest });
        }
        // What becomes of the answers does not decide them.
        let asked = TaskConfig {
            metrics: Vec::new(),
            filter: None,
            exact_match: None,
            chance: None,
            alias: None,
            group: None,
            ..config.clone()
        };
        let settings = digest(&asked, path)?;
        Ok(Self { path: path.to_owned(), config, kind, items, original, reader, settings })
    }

    /// Its name in results.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Its name in tables.
    pub(crate) fn alias(&self) -> &str {
        self.config.alias.as_deref().unwrap_or(self.name())
    }

    /// The number of rows, within the limit.
    pub fn rows(&self) -> usize {
        self.items.len()
    }

    /// Whether its answers are generated.
    pub(crate) fn generates(&self) -> bool {
        self.kind == Kind::Generated
    }

    /// The share of right answers that guessing has: the mean over rows of 1/choices, or of the task's `chance`; `None` if it is not
    /// known of every row.
    pub fn chance(&self) -> Option<f64> {
        Some(self.items.iter().map(|item| item.chance).sum::<Option<f64>>()? / self.items.len() as f64)
    }
}

/// The share of right answers that guessing has in a row.
fn chance(config: &TaskConfig, question: &Question, fields: &Fields) -> Result<Option<f64>, String> {
    let Some(template) = &config.chance else {
        return Ok(match question {
            Question::Choice { choices, .. } => Some(1.0 / choices.len() as f64),
            _ => None,
        });
    };
    let text = template::literal(template, fields)?;
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(Some(share)),
        _ => Err(format!("`chance` is {}, not a number from 0 to 1", quote(&text))),
    }
}

fn digest(value: &impl Serialize, path: &Path) -> Result<String> {
    let json = serde_json::to_vec(value).map_err(|error| Error::tasks(path, error.to_string()))?;
    Ok(sha256(&json))
}

/// Makes questions of rows.
struct ItemMaker<'a> {
    config: &'a TaskConfig,
    kind: Kind,
    shots: Option<FewShot>,
    /// The text before the examples, if it is no template.
    description: Option<String>,
    format: ContextFormat<'a>,
}

/// A row as an example would show it.
struct Turn {
    /// The prompt. Of a partial choice: that of each choice.
    prompts: Vec<String>,
    choices: Vec<String>,
    /// The right choice.
    answer: usize,
    /// The text after the prompt that is right.
    right: String,
}

impl ItemMaker<'_> {
    fn question(&mut self, row: &Row) -> Result<Question, String> {
        let fields = &row.fields;
        if self.kind == Kind::Rolling {
            let text = self.text("text", self.config.text.as_ref(), fields)?;
            return if text.is_empty() { Err("its text is empty".into()) } else { Ok(Question::Rolling { text }) };
        }
        let before = self.before(row)?;
        let Turn { prompts, choices, answer, right } = self.turn(fields)?;
        let delimiter = self.format.before_choice(self.config.target_delimiter());
        let context = || self.format.text(&before, prompts.first().map_or("", String::as_str));
        Ok(match self.kind {
            Kind::Choice => {
                let context = context()?;
                let pair = |choice: &String| (context.clone(), format!("{delimiter}{choice}"));
                Question::Choice { pairs: choices.iter().map(pair).collect(), choices, answer }
            }
            Kind::Partial => {
                let pair = |prompt: &String| Ok((self.format.text(&before, prompt)?, format!("{delimiter}{right}")));
                Question::Choice { pairs: prompts.iter().map(pair).collect::<Result<_, String>>()?, choices, answer }
            }
            Kind::Generated => Question::Generated { context: context()?, target: right },
            Kind::Continuation | Kind::Rolling => Question::Continuation { context: context()?, continuation: right },
        })
    }

    /// The description and the few-shot examples of a row.
    fn before(&mut self, row: &Row) -> Result<Vec<Part>, String> {
        let description = match (&self.description, &self.config.description) {
            (Some(text), _) => text.clone(),
            (None, Some(template)) => template::literal(template, &row.fields)?,
            (None, None) => String::new(),
        };
        let drawn = self.shots.as_mut().map(|shots| shots.draw(row)).unwrap_or_default();
        let mut parts = Vec::new();
        if !description.is_empty() {
            parts.push(Part { role: ChatRole::System, text: description, delimiter: String::new() });
        }
        let Some(shots) = &self.shots else { return Ok(parts) };
        let after = self.config.few_shot.as_ref().map_or("", |shots| shots.delimiter.as_str());
        for at in drawn {
            let shot = &shots.pool()[at];
            let turn = self.turn(&shot.fields).map_err(|why| format!("few-shot example {}: {why}", shot.number))?;
            let prompt = turn.prompts.get(if self.kind == Kind::Partial { turn.answer } else { 0 });
            let right = if self.kind == Kind::Choice { &turn.choices[turn.answer] } else { &turn.right };
            let mut asked =
                Part { role: ChatRole::User, text: prompt.cloned().unwrap_or_default(), delimiter: String::new() };
            if right.is_empty() {
                parts.push(asked);
                continue;
            }
            asked.delimiter = self.config.target_delimiter().to_owned();
            parts.push(asked);
            parts.push(Part { role: ChatRole::Assistant, text: right.clone(), delimiter: after.to_owned() });
        }
        Ok(parts)
    }

    fn turn(&self, fields: &Fields) -> Result<Turn, String> {
        let config = self.config;
        let mut turn = Turn { prompts: Vec::new(), choices: Vec::new(), answer: 0, right: String::new() };
        if let Some(listed) = &config.choices {
            turn.choices = template::list(listed, fields)?;
            if turn.choices.len() < 2 {
                return Err(format!("it has {} choices; there must be at least 2", turn.choices.len()));
            }
            turn.answer = self.answer(&turn.choices, fields)?;
        }
        match self.kind {
            Kind::Partial => turn.prompts.clone_from(&turn.choices),
            _ => turn.prompts.push(self.text("prompt", config.prompt.as_ref(), fields)?),
        }
        match self.kind {
            Kind::Partial | Kind::Continuation => {
                turn.right = self.text("continuation", config.continuation.as_ref(), fields)?;
                if turn.right.is_empty() {
                    return Err("its continuation is empty".into());
                }
            }
            Kind::Generated => turn.right = self.text("target", config.target.as_ref(), fields)?,
            Kind::Choice => {
                if let Some(at) = turn.choices.iter().position(String::is_empty) {
                    return Err(format!("choice {at} is empty"));
                }
            }
            Kind::Rolling => {}
        }
        Ok(turn)
    }

    fn text(&self, key: &str, template: Option<&String>, fields: &Fields) -> Result<String, String> {
        template::text(template.map_or("", String::as_str), fields).map_err(|why| format!("{key}: {why}"))
    }

    /// The index of the right choice.
    fn answer(&self, choices: &[String], fields: &Fields) -> Result<usize, String> {
        let template = self.config.answer.as_deref().unwrap_or("");
        let answer = template::value(template, fields).map_err(|why| format!("answer: {why}"))?;
        let labels: Option<Vec<String>> =
            self.config.labels.as_ref().map(|labels: &Listed| template::list(labels, fields)).transpose()?;
        let text = match &answer {
            Value::Number(number) if labels.is_none() => {
                let index = number.as_u64().and_then(|number| usize::try_from(number).ok());
                return index
                    .filter(|index| *index < choices.len())
                    .ok_or_else(|| out_of_range(&number.to_string(), choices));
            }
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            other => return Err(format!("the answer is {other}, not a number or a text")),
        };
        let place = |names: &[String]| names.iter().position(|name| *name == text);
        if let Some(labels) = labels {
            let found = place(&labels).filter(|at| *at < choices.len());
            let known: Vec<String> = labels.iter().map(|label| quote(label)).collect();
            return found
                .ok_or_else(|| format!("the answer `{}` is no label; there are {}", quote(&text), known.join(", ")));
        }
        let letter = || match text.as_bytes() {
            [letter @ b'A'..=b'Z'] => Some(usize::from(letter - b'A')),
            _ => None,
        };
        let index = place(choices).or_else(letter).or_else(|| text.parse().ok());
        index.filter(|index| *index < choices.len()).ok_or_else(|| out_of_range(&text, choices))
    }
}

fn out_of_range(answer: &str, choices: &[String]) -> String {
    let last = choices.len() - 1;
    format!(
        "the answer `{}` is not one of its {} choices; write a number from 0 to {last}, a letter, or the text of a choice",
        quote(answer),
        choices.len()
    )
}

#[cfg(test)]
mod tests {
    use crate::TaskSource;

    #[test]
    fn chance_is_that_of_choices_or_the_one_of_the_task() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasks.toml");
        let rows = "{\"q\": \"a?\", \"t\": \"b\", \"n\": 2}\n{\"q\": \"c?\", \"t\": \"d\", \"n\": 4}\n";
        std::fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
        let load = |rest: &str| {
            let head = "[[task]]\nname = 'a'\nfile = 'rows.jsonl'\nprompt = 'q'\n";
            std::fs::write(&file, format!("{head}{rest}\n")).unwrap();
            TaskSource::new(&file, None, None).load()
        };
        let chance = |rest: &str| load(rest).unwrap()[0].chance();
        assert_eq!(chance("choices = ['b', 'c', 'd', 'e']\nanswer = 't'"), Some(0.25));
        assert_eq!(chance("target = 't'"), None);
        assert_eq!(chance("target = 't'\nchance = '0.2'"), Some(0.2));
        assert_eq!(chance("target = 't'\nchance = '{{1 / n}}'"), Some(0.375));
        // It does not decide answers.
        assert_eq!(
            load("target = 't'").unwrap()[0].settings,
            load("target = 't'\nchance = '0.2'").unwrap()[0].settings
        );
        for (bad, said) in [("'n'", "row 1"), ("'{{2 * n}}'", "not a number from 0 to 1"), ("'{{q}}'", "not a number")]
        {
            let error = load(&format!("target = 't'\nchance = {bad}")).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = load("choices = ['b', 'd']\nanswer = 't'\nchance = '0.5'").unwrap_err().to_string();
        assert!(error.contains("`chance` does not belong"), "{error}");
    }
}
