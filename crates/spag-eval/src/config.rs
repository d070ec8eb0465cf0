//! The settings of a task.

use std::path::Path;

use serde::{Deserialize, Serialize};
use spag_io::quote;

use crate::answer_config::{ExactMatchConfig, Filters};
use crate::error::{Error, Result};
use crate::metric::Metric;

/// Tokens of a generated answer that a task can ask for.
const NEW_TOKENS: std::ops::RangeInclusive<usize> = 1..=1 << 20;
/// Answers of a row.
const SAMPLES: std::ops::RangeInclusive<usize> = 1..=4096;
/// Temperatures.
const TEMPERATURE: std::ops::RangeInclusive<f64> = 0.0..=100.0;
/// Few-shot examples that a task can ask for.
const SHOTS: std::ops::RangeInclusive<usize> = 0..=1000;

/// One `[[task]]`. Texts marked as templates are Jinja over the fields of a row; a text without braces names a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskConfig {
    /// The name in results and in names of files.
    pub name: String,
    /// The name in tables; the name if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The group, whose score is the mean over the rows of its tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Makes one task of each of these: `NAME_SUBTASK`, in the group `NAME`. Templates know it as `subtask`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<String>,
    /// The data: JSONL, a JSON list, or CSV if the name ends in `.csv`. A template over `subtask`.
    pub file: String,
    /// The names of the columns of a CSV file whose first line does not have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// A template of whether a row is asked: `{{ an expression }}`. Examples are chosen by it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Replacements in all texts of a row, in order: `["from", "to"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<(String, String)>,
    /// A list of choices in a random order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<ShuffleConfig>,
    /// A template of the text before the examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A file with that text, which loses white space at its end. A template over `subtask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description_file: Option<String>,
    /// A template of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The answers of a multiple choice: a list of templates, or a template of a list. With `continuation`, the texts before
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<Listed>,
    /// Names of the choices that `answer` may use, as `choices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Listed>,
    /// A template of the right choice: a number from 0, a label, the text of a choice, or a letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// A template of a text whose likelihood is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<String>,
    /// A template of the expected answer, of an answer that is generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A template of a text whose perplexity is computed, without a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Strings that end a generated answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<String>,
    /// The most tokens of a generated answer; 256 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new_tokens: Option<usize>,
    /// Answers of a row, drawn one by one; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// Of the draws; the most likely tokens if absent or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Draws from the most likely tokens that have this probability together; from all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed of the draws; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What is between a prompt and an answer; a blank if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_delimiter: Option<String>,
    /// Examples before the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_shot: Option<FewShotConfig>,
    /// What is taken from a generated answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filters>,
    /// How a generated answer is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<ExactMatchConfig>,
    /// A template of the share of right answers that guessing has, if a generated answer is one of a few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<String>,
    /// The metrics, the main one first; those of the kind of task if absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
}

/// Texts: a template of each, or one of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
pub enum Listed {
    /// A field that holds a list, or `{{ an expression }}` whose value is one.
    One(String),
    /// A template of each text.
    Each(Vec<String>),
}

/// `[task.few_shot]`: examples before the prompt, each a prompt with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FewShotConfig {
    /// The number of examples.
    pub number: usize,
    /// The data; a template over `subtask`. Without file and rows, examples are other rows of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The examples themselves, instead of a file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Which examples.
    pub order: ShotOrder,
    /// Seed of the order `random`.
    pub seed: u64,
    /// What follows each example.
    pub delimiter: String,
}

impl Default for FewShotConfig {
    fn default() -> Self {
        Self {
            number: 0,
            file: None,
            rows: Vec::new(),
            order: ShotOrder::Random,
            seed: 1234,
            delimiter: "\n\n".to_owned(),
        }
    }
}

/// Which few-shot examples a row has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShotOrder {
    /// Other ones for each row, those that lm-evaluation-harness draws with the same seed.
    #[default]
    Random,
    /// The first ones.
    First,
}

/// `[task.shuffle]`: a list of choices in an order of each row's own, for data that have the right one first. The order depends on
/// the texts alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffleConfig {
    /// The field that gets the list.
    pub list: String,
    /// The field that gets the letter of the first of `texts`.
    pub letter: String,
    /// Templates of the texts, or the names of their fields. White space around them is left out.
    pub texts: Vec<String>,
    /// Replacements in these texts, in order: `["from", "to"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<(String, String)>,
}

/// What a task asks of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The likelihood of each choice after the prompt.
    Choice,
    /// The likelihood of one continuation after each choice.
    Partial,
    /// The likelihood of one continuation.
    Continuation,
    /// A generated answer.
    Generated,
    /// The likelihood of a text.
    Rolling,
}

impl Kind {
    /// The name of the output type in lm-evaluation-harness.
    pub(crate) fn output_type(self) -> &'static str {
        match self {
            Self::Choice | Self::Partial => "multiple_choice",
            Self::Continuation => "loglikelihood",
            Self::Generated => "generate_until",
            Self::Rolling => "loglikelihood_rolling",
        }
    }

    /// The metrics of a task that names none.
    fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Choice => &[Metric::Acc, Metric::AccNorm],
            Self::Partial => &[Metric::Acc],
            Self::Continuation => &[Metric::Perplexity, Metric::Acc],
            Self::Generated => &[Metric::ExactMatch],
            Self::Rolling => &[Metric::WordPerplexity, Metric::BytePerplexity, Metric::BitsPerByte],
        }
    }

    /// All metrics that it can have.
    fn known_metrics(self) -> &'static [Metric] {
        match self {
            Self::Choice | Self::Partial => {
                &[Metric::Acc, Metric::AccNorm, Metric::AccBytes, Metric::RecallAt1, Metric::RecallAt2, Metric::Mrr]
            }
            other => other.metrics(),
        }
    }

    /// Whether it can have a metric.
    fn knows(self, metric: Metric) -> bool {
        self.known_metrics().contains(&metric)
            || self == Self::Generated && matches!(metric, Metric::MeanAt(_) | Metric::PassAt(_) | Metric::MajAt(_))
    }

    /// The keys that it needs, and those that it may have beside `name`, `file` and others that all have.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Choice => (&["prompt", "choices", "answer"], &["labels", "few_shot", "target_delimiter"]),
            Self::Partial => (&["choices", "continuation", "answer"], &["labels", "few_shot", "target_delimiter"]),
            Self::Continuation => (&["prompt", "continuation"], &["few_shot", "target_delimiter"]),
            Self::Generated => (
                &["prompt", "target"],
                &[
                    "until",
                    "max_new_tokens",
                    "samples",
                    "temperature",
                    "top_p",
                    "seed",
                    "few_shot",
                    "filter",
                    "exact_match",
                    "chance",
                    "target_delimiter",
                ],
            ),
            Self::Rolling => (&["text"], &[]),
        }
    }
}

impl TaskConfig {
    /// What the task asks of a model; `None` if it does not say.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match () {
            () if self.text.is_some() => Some(Kind::Rolling),
            () if self.target.is_some() => Some(Kind::Generated),
            () if self.choices.is_some() && self.continuation.is_some() => Some(Kind::Partial),
            () if self.choices.is_some() => Some(Kind::Choice),
            () if self.continuation.is_some() => Some(Kind::Continuation),
            () => None,
        }
    }

    /// The metrics, the main one first.
    pub(crate) fn metrics(&self) -> &[Metric] {
        match self.kind() {
            Some(kind) if self.metrics.is_empty() => kind.metrics(),
            _ => &self.metrics,
        }
    }

    pub(crate) fn target_delimiter(&self) -> &str {
        self.target_delimiter.as_deref().unwrap_or(" ")
    }

    /// The answers of a row.
    pub(crate) fn samples(&self) -> usize {
        self.samples.unwrap_or(1)
    }

    /// How answers are generated, as lm-evaluation-harness says it.
    pub(crate) fn generation_kwargs(&self) -> serde_json::Value {
        let mut kwargs = serde_json::json!({ "until": self.until, "do_sample": self.is_sampled() });
        if self.is_sampled() {
            kwargs["temperature"] = self.temperature.into();
            kwargs["top_p"] = self.top_p.unwrap_or(1.0).into();
        }
        kwargs
    }

    /// Whether answers are drawn.
    pub(crate) fn is_sampled(&self) -> bool {
        self.temperature.is_some_and(|temperature| temperature > 0.0)
    }

    fn check_samples(&self) -> std::result::Result<(), String> {
        let samples = self.samples();
        if !SAMPLES.contains(&samples) {
            return Err(format!("samples is {samples}; it must be from 1 to {}", SAMPLES.end()));
        }
        let temperature = self.temperature.unwrap_or(0.0);
        if !TEMPERATURE.contains(&temperature) {
            return Err(format!("temperature is {temperature}; it must be from 0 to {}", TEMPERATURE.end()));
        }
        if samples > 1 && !self.is_sampled() {
            return Err("several samples would be equal without a temperature; set one above 0".to_owned());
        }
        if self.top_p.is_some_and(|top_p| !(top_p > 0.0 && top_p <= 1.0)) {
            return Err("top_p must be above 0 and at most 1".to_owned());
        }
        match self.metrics.iter().find(|metric| metric.samples() > samples) {
            Some(metric) => Err(format!("`{metric}` needs {} samples, and a row has {samples}", metric.samples())),
            None => Ok(()),
        }
    }

    /// Checks that the keys are those of one kind of task, and their values.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        let wrong = |what: String| Err(Error::tasks(path, format!("task `{}`: {what}", quote(&self.name))));
        if self.name.is_empty() {
            return Err(Error::tasks(path, "a task has no name"));
        }
        if self.file.is_empty() {
            return wrong("it has no file".into());
        }
        let Some(kind) = self.kind() else {
            return wrong("it needs `choices` and `answer`, or `continuation`, or `target`, or `text`".into());
        };
        let set: [(&str, bool); 18] = [
            ("prompt", self.prompt.is_some()),
            ("choices", self.choices.is_some()),
            ("labels", self.labels.is_some()),
            ("answer", self.answer.is_some()),
            ("continuation", self.continuation.is_some()),
            ("target", self.target.is_some()),
            ("text", self.text.is_some()),
            ("until", !self.until.is_empty()),
            ("max_new_tokens", self.max_new_tokens.is_some()),
            ("samples", self.samples.is_some()),
            ("temperature", self.temperature.is_some()),
            ("top_p", self.top_p.is_some()),
            ("seed", self.seed.is_some()),
            ("target_delimiter", self.target_delimiter.is_some()),
            ("few_shot", self.few_shot.is_some()),
            ("filter", self.filter.is_some()),
            ("exact_match", self.exact_match.is_some()),
            ("chance", self.chance.is_some()),
        ];
        let (needed, allowed) = kind.keys();
        let is_set = |key: &&str| set.iter().any(|(name, set)| name == key && *set);
        let what = kind.output_type();
        if let Some(key) = needed.iter().find(|key| !is_set(key)) {
            return wrong(format!("a task with {} needs `{key}`", listed(needed.iter().filter(|key| is_set(key)))));
        }
        let foreign = set.iter().find(|(key, set)| *set && !needed.contains(key) && !allowed.contains(key));
        if let Some((key, _)) = foreign {
            return wrong(format!("`{key}` does not belong to a task of the kind {what}"));
        }
        if let Some(metric) = self.metrics.iter().find(|metric| !kind.knows(**metric)) {
            let known = listed(kind.known_metrics());
            return wrong(format!("`{metric}` is no metric of the kind {what}; there are {known}"));
        }
        self.check_samples().or_else(wrong)?;
        if self.description.is_some() && self.description_file.is_some() {
            return wrong("it has `description` and `description_file`; give one".into());
        }
        let filters = self.filter.iter().flat_map(|filters| &filters.0).map(|filter| filter.name.as_str());
        if let Some(name) = filters.clone().find(|name| filters.clone().filter(|other| other == name).count() > 1) {
            return wrong(format!("two filters have the name `{}`", quote(name)));
        }
        let tokens = self.max_new_tokens.unwrap_or(1);
        if !NEW_TOKENS.contains(&tokens) {
            return wrong(format!("max_new_tokens is {tokens}; it must be from 1 to {}", NEW_TOKENS.end()));
        }
        if self.until.iter().any(String::is_empty) {
            return wrong("a string in `until` is empty; it would end every answer at once".into());
        }
        if let Some(Listed::Each(each)) = &self.choices
            && each.len() < 2
        {
            return wrong(format!("it has {} choices; there must be at least 2", each.len()));
        }
        if let Some(shots) = &self.few_shot {
            if shots.file.is_some() && !shots.rows.is_empty() {
                return wrong("few_shot has `file` and `rows`; give one".into());
            }
            if !SHOTS.contains(&shots.number) {
                return wrong(format!("few_shot.number is {}; it must be at most {}", shots.number, SHOTS.end()));
            }
        }
        Ok(())
    }
}

fn listed<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
