//! The results of a model, in the shape in which lm-evaluation-harness writes them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use spag_io::{write_json_atomically, write_jsonl_atomically};
use spag_selfplay::{Rate, ReasoningStats};

use crate::config::Kind;
use crate::context::ChatShots;
use crate::error::Result;
use crate::evaluation::AskSettings;
use crate::metric::{Metric, Value, pooled};
use crate::paired::{MainScores, PairedDifference};
use crate::record::Answered;
use crate::scored_row::{RowScore, samples, scores};
use crate::task::{Item, Task};

/// Two-sided 95% quantile of the normal distribution.
pub(crate) const Z95: f64 = 1.959_963_984_540_054;

/// The results of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelResults {
    /// Its scores.
    pub scores: ModelScores,
    /// The content of its `results.json`.
    pub json: Json,
    /// The scores of rows, for comparisons.
    pub(crate) main_scores: Vec<MainScores>,
}

/// The scores of a model in all tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelScores {
    /// Its name.
    pub name: String,
    /// Each task and each group, in the order of the tasks; a group is before its first task.
    pub tasks: Vec<TaskScore>,
    /// Rows whose prompt lost its beginning, because it was too long.
    pub cut: usize,
    /// Differences from the first model of an evaluation on the same rows; empty for that model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paired: Vec<PairedDifference>,
}

/// The result of a task or a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskScore {
    /// The name in results.
    pub name: String,
    /// The name in tables.
    pub alias: String,
    /// The group of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<String>,
    /// Whether this is a group, whose score is the mean over all rows of its tasks.
    pub is_group: bool,
    /// Rows.
    pub rows: usize,
    /// The share of right answers that guessing has, if known.
    pub chance: Option<f64>,
    /// Metrics, the main one first.
    pub metrics: Vec<MetricScore>,
    /// What generated answers of a task began with, if models may think.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reasoning: Option<ReasoningStats>,
}

/// A metric of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricScore {
    /// The metric.
    pub metric: Metric,
    /// The filter that answers went through, or `none`.
    pub filter: String,
    /// The value with its standard error.
    pub value: Value,
    /// The 95% interval: Wilson's of a share of rows; of other means 1.96 standard errors to both sides, of a
    /// perplexity those of its logarithm.
    pub interval: Option<(f64, f64)>,
}

impl TaskScore {
    /// The main metric.
    pub fn main(&self) -> Option<&MetricScore> {
        self.metrics.first()
    }
}

impl ModelResults {
    pub(crate) fn new(
        name: &str,
        model: &Path,
        tasks: &[Task],
        answers: &[Vec<Answered>],
        settings: &AskSettings,
        max_length: usize,
        rows: &[Vec<Vec<RowScore>>],
    ) -> Self {
        let thinks = settings.reasoning.describe().is_some();
        let each: Vec<TaskScore> = tasks
            .iter()
            .zip(rows.iter().zip(answers))
            .map(|(task, (rows, answers))| {
                let reasoning = (thinks && task.generates()).then(|| {
                    ReasoningStats::of(answers.iter().map(|answer| (answer.reasoning.as_deref(), answer.reasoning_end)))
                });
                TaskScore { reasoning, ..task_score(task, rows) }
            })
            .collect();
        let mut all: Vec<TaskScore> = Vec::new();
        for score in &each {
            if let Some(group) = &score.group
                && !all.iter().any(|known| known.is_group && known.name == *group)
            {
                all.push(group_score(group, &each));
            }
            all.push(score.clone());
        }
        let cut = answers.iter().flatten().filter(|answer| answer.cut).count();
        let json = results_json(name, model, tasks, &all, cut, settings, max_length);
        let main_scores = tasks.iter().zip(rows).filter_map(|(task, rows)| main_scores(task, rows)).collect();
        let scores = ModelScores { name: name.to_owned(), tasks: all, cut, paired: Vec::new() };
        Self { scores, json, main_scores }
    }

    /// Writes `results.json`, and `samples_TASK.jsonl` for each task.
    pub(crate) fn write(
        &self,
        folder: &Path,
        tasks: &[Task],
        answers: &[Vec<Answered>],
        rows: &[Vec<Vec<RowScore>>],
    ) -> Result<()> {
        for ((task, answers), scores) in tasks.iter().zip(answers).zip(rows) {
            let lines = each_row(task, answers).zip(scores);
            let lines: Vec<Json> =
                lines.flat_map(|((item, answers), scores)| samples(task, item, answers, scores)).collect();
            write_jsonl_atomically(folder.join(format!("samples_{}.jsonl", task.name())), &lines)?;
        }
        Ok(write_json_atomically(folder.join("results.json"), &self.json)?)
    }
}

/// The main metric of each row, unless it is a perplexity, from the scores of all metrics.
fn main_scores(task: &Task, rows: &[Vec<RowScore>]) -> Option<MainScores> {
    let metric = *task.config.metrics().first().filter(|metric| metric.higher_is_better())?;
    let rows = rows.iter().map(|row| row.first().map(|(score, _)| *score)).collect::<Option<_>>()?;
    let label = task.config.group.as_deref().unwrap_or(task.alias()).to_owned();
    Some(MainScores { task: task.name().to_owned(), label, metric, rows })
}

/// The score of each row in each metric, filter by filter.
pub(crate) fn row_scores(task: &Task, answers: &[Answered]) -> Vec<Vec<RowScore>> {
    each_row(task, answers).map(|(item, answers)| scores(task, item, answers)).collect()
}

/// The rows of a task with their answers.
fn each_row<'a>(task: &'a Task, answers: &'a [Answered]) -> impl Iterator<Item = (&'a Item, &'a [Answered])> {
    task.items.iter().zip(answers.chunks(task.config.samples()))
}

fn task_score(task: &Task, rows: &[Vec<RowScore>]) -> TaskScore {
    let filters = task.reader.filters();
    let each = filters.iter().flat_map(|filter| task.config.metrics().iter().map(move |metric| (*filter, *metric)));
    let metric = |(at, (filter, metric)): (usize, (&str, Metric))| {
        let column: Vec<RowScore> = rows.iter().filter_map(|row| row.get(at).copied()).collect();
        let value = metric.aggregate(&column);
        MetricScore { metric, filter: filter.to_owned(), value, interval: interval(metric, value, &column) }
    };
    TaskScore {
        name: task.name().to_owned(),
        alias: task.alias().to_owned(),
        group: task.config.group.clone(),
        is_group: false,
        rows: rows.len(),
        chance: task.chance(),
        metrics: each.enumerate().map(metric).collect(),
        reasoning: None,
    }
}

/// The interval of a mean over rows. A share of rows with the property has Wilson's interval.
fn interval(metric: Metric, value: Value, rows: &[RowScore]) -> Option<(f64, f64)> {
    let is_share = metric.higher_is_better() && rows.iter().all(|(score, _)| *score == 0.0 || *score == 1.0);
    if is_share {
        let count = rows.iter().filter(|(score, _)| *score == 1.0).count();
        let rate = Rate::new(count, rows.len());
        return Some((rate.low, rate.high));
    }
    match (metric, value.stderr) {
        // Around the mean of the logarithms, whose exponential it is.
        (Metric::Perplexity, Some(stderr)) => {
            let factor = (Z95 * stderr / value.value).exp();
            Some((value.value / factor, value.value * factor))
        }
        _ => around(value),
    }
}

fn around(Value { value, stderr }: Value) -> Option<(f64, f64)> {
    stderr.map(|stderr| (value - Z95 * stderr, value + Z95 * stderr))
}

/// The mean over all rows of the tasks of a group, of the metrics that all of them have.
fn group_score(name: &str, tasks: &[TaskScore]) -> TaskScore {
    let members: Vec<&TaskScore> = tasks.iter().filter(|task| task.group.as_deref() == Some(name)).collect();
    let rows = members.iter().map(|task| task.rows).sum();
    let of = |metric: &MetricScore| {
        let same = |task: &&TaskScore| {
            let found = task.metrics.iter().find(|m| m.metric == metric.metric && m.filter == metric.filter)?;
            Some((found.value, task.rows))
        };
        let parts: Vec<(Value, usize)> = members.iter().map(same).collect::<Option<_>>()?;
        let value = pooled(&parts);
        let interval = around(value).map(|(low, high)| (low.max(0.0), high.min(1.0)));
        Some(MetricScore { value, interval, ..metric.clone() })
    };
    let shares = members.first().map_or(&[][..], |task| &task.metrics);
    let chance = members.iter().map(|task| task.chance.map(|chance| chance * task.rows as f64)).sum::<Option<f64>>();
    TaskScore {
        name: name.to_owned(),
        alias: name.to_owned(),
        group: None,
        is_group: true,
        rows,
        chance: chance.map(|sum| sum / rows as f64),
        metrics: shares.iter().filter(|metric| metric.metric.higher_is_better()).filter_map(of).collect(),
        reasoning: None,
    }
}

/// The content of `results.json`.
fn results_json(
    name: &str,
    model: &Path,
    tasks: &[Task],
    scores: &[TaskScore],
    cut: usize,
    settings: &AskSettings,
    max_length: usize,
) -> Json {
    let keyed = |values: Vec<(String, Json)>| Json::Object(values.into_iter().collect::<Map<_, _>>());
    let metrics = |score: &TaskScore| {
        let mut found = Map::new();
        found.insert("name".into(), score.name.clone().into());
        found.insert("alias".into(), score.alias.clone().into());
        found.insert("sample_len".into(), score.rows.into());
        for MetricScore { metric, filter, value, .. } in &score.metrics {
            found.insert(format!("{metric},{filter}"), value.value.into());
            let stderr = value.stderr.map_or_else(|| Json::from("N/A"), Json::from);
            found.insert(format!("{metric}_stderr,{filter}"), stderr);
        }
        if let Some(ReasoningStats { characters, empty, forced, unfinished }) = score.reasoning {
            found.insert("reasoning_characters".into(), characters.into());
            found.insert("empty_reasoning".into(), empty.into());
            found.insert("forced_reasoning".into(), forced.into());
            found.insert("unfinished_reasoning".into(), unfinished.into());
        }
        (score.name.clone(), Json::Object(found))
    };
    let better = |score: &TaskScore| {
        let each = score.metrics.iter().map(|m| (m.metric.to_string(), m.metric.higher_is_better().into()));
        (score.name.clone(), keyed(each.collect()))
    };
    let groups: Vec<&TaskScore> = scores.iter().filter(|score| score.is_group).collect();
    let members = |group: &&TaskScore| {
        let names = tasks.iter().filter(|task| task.config.group.as_deref() == Some(&group.name)).map(Task::name);
        (group.name.clone(), Json::from(names.collect::<Vec<_>>()))
    };
    let shots = |task: &Task| task.config.few_shot.as_ref().map_or(0, |shots| shots.number);
    let named =
        |of: &dyn Fn(&Task) -> Json| keyed(tasks.iter().map(|task| (task.name().to_owned(), of(task))).collect());
    let mut json = json!({ "results": keyed(scores.iter().map(metrics).collect()) });
    if !groups.is_empty() {
        json["groups"] = keyed(groups.iter().map(|group| metrics(group)).collect());
    }
    json["group_subtasks"] = keyed(groups.iter().map(members).collect());
    json["configs"] = named(&config_json);
    json["versions"] = named(&|_| 1.into());
    json["n-shot"] = named(&|task| shots(task).into());
    json["higher_is_better"] = keyed(scores.iter().map(better).collect());
    json["n-samples"] = named(&|task| json!({ "original": task.original, "effective": task.rows() }));
    json["config"] = json!({
        "model": "spag",
        "model_args": { "pretrained": model.display().to_string(), "add_bos_token": settings.bos.flag() },
        "model_dtype": settings.arithmetic,
    });
    if let Some(template) = &settings.chat_template {
        json["chat_template"] = template.as_str().into();
        json["fewshot_as_multiturn"] = (settings.chat_shots == ChatShots::Turns).into();
    }
    json["max_length"] = max_length.into();
    json["model_source"] = "spag".into();
    json["model_name"] = name.into();
    json["truncated_prompts"] = cut.into();
    json
}

fn config_json(task: &Task) -> Json {
    let mut config = serde_json::to_value(&task.config).unwrap_or_default();
    config["task"] = task.name().into();
    config["output_type"] = task.kind.output_type().into();
    if task.kind == Kind::Generated {
        config["generation_kwargs"] = task.config.generation_kwargs();
        config["repeats"] = task.config.samples().into();
    }
    config
}
