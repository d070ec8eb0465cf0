//! The table of scores.

use spag_run::document::Table;
use spag_selfplay::{ReasoningStats, text_table};

use crate::paired::PairedDifference;
use crate::results::{MetricScore, ModelScores, TaskScore};

/// Whether a table has the tasks of groups too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Every task.
    All,
    /// Groups, and tasks without one.
    Groups,
}

/// The scores of all models as plain text: groups and tasks without a group, one line a metric, and the
/// differences from the first model. A score of another number of rows than the first model's says of how many. Texts of others are escaped.
pub fn render_table(models: &[ModelScores]) -> String {
    let Table { columns, rows, .. } = scores_table(models, Rows::Groups);
    let mut text = text_table(&columns, &rows);
    for Table { title, columns, rows } in
        [reasoning_table(models), paired_table(models)].into_iter().filter_map(Table::filled)
    {
        text.push_str(&format!("\n{title}\n\n{}", text_table(&columns, &rows)));
    }
    cut_notes(models).for_each(|note| text.push_str(&format!("\n  {note}\n")));
    text
}

/// What is to be known of models whose prompts were cut.
pub(super) fn cut_notes(models: &[ModelScores]) -> impl Iterator<Item = String> {
    models.iter().filter(|model| model.cut > 0).map(|model| {
        let name = spag_io::quote(&model.name);
        format!("{name}: {} rows were longer than the model sees, and their prompts lost their beginning", model.cut)
    })
}

/// What answers began with, of models that may think.
pub(super) fn reasoning_table(models: &[ModelScores]) -> Table {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let row = |model: &ModelScores, task: &TaskScore| {
        let ReasoningStats { characters, empty, forced, unfinished } = task.reasoning?;
        let (model, task) = (spag_io::quote(&model.name), task.alias.clone());
        Some(vec![model, task, format!("{characters:.0}"), percent(empty), percent(forced), percent(unfinished)])
    };
    let rows = models.iter().flat_map(|model| model.tasks.iter().filter_map(move |task| row(model, task)));
    Table::new(
        "Reasoning before answers: characters on average, and % of answers without it, whose budget was used up, or that ended within it",
        ["model", "task", "characters", "empty", "forced", "unfinished"],
        rows.collect(),
    )
}

/// The differences from the first model, in the order of models.
pub(super) fn paired_table(models: &[ModelScores]) -> Table {
    let row = |model: &ModelScores, paired: &PairedDifference| {
        vec![
            spag_io::quote(&model.name),
            paired.task.clone(),
            paired.metric.map_or("–".to_owned(), |metric| metric.to_string()),
            paired.rows.to_string(),
            paired.change.to_string(),
            paired.better.to_string(),
            paired.worse.to_string(),
            if paired.p < 0.001 { "< 0.001".to_owned() } else { format!("{:.3}", paired.p) },
        ]
    };
    let rows = models.iter().flat_map(|model| model.paired.iter().map(move |paired| row(model, paired)));
    Table::new(
        "Against the first model on the rows that both answered, points [95% interval]; p of the exact sign test (McNemar's)",
        ["model", "task", "metric", "rows", "change", "better", "worse", "p"],
        rows.collect(),
    )
}

/// The scores of all models.
pub(super) fn scores_table(models: &[ModelScores], which: Rows) -> Table {
    let names = models.iter().map(|model| spag_io::quote(&model.name));
    let columns = ["task", "metric", "rows", "chance"].into_iter().map(str::to_owned).chain(names);
    let mut rows = Vec::new();
    let tasks = models.first().into_iter().flat_map(|first| &first.tasks);
    for task in tasks.filter(|task| which == Rows::All || task.group.is_none()) {
        for (at, metric) in task.metrics.iter().enumerate() {
            let chance =
                task.chance.filter(|_| at == 0).map_or("–".to_owned(), |chance| format!("{:.1}", 100.0 * chance));
            let name = if task.group.is_some() { format!("· {}", task.alias) } else { task.alias.clone() };
            let mut row = vec![name, metric_name(metric), task.rows.to_string(), chance];
            row.extend(models.iter().map(|model| {
                let same = |other: &&TaskScore| other.name == task.name && other.is_group == task.is_group;
                let found = model.tasks.iter().find(same);
                let score = found.and_then(|task| task.metrics.get(at)).map_or("–".to_owned(), show);
                match found.filter(|found| found.rows != task.rows) {
                    Some(found) => format!("{score} of {}", found.rows),
                    None => score,
                }
            }));
            rows.push(row);
        }
    }
    let title = "Scores, % of rows [95% interval] (perplexities as they are); chance is the share that guessing has";
    Table::new(title, columns, rows)
}

fn metric_name(metric: &MetricScore) -> String {
    match metric.filter.as_str() {
        "none" => metric.metric.to_string(),
        filter => format!("{} ({filter})", metric.metric),
    }
}

/// A value with its interval: a share in per cent.
fn show(score: &MetricScore) -> String {
    let factor = if score.metric.higher_is_better() { 100.0 } else { 1.0 };
    let digits = if score.metric.higher_is_better() { 1 } else { 3 };
    let number = |value: f64| format!("{:.digits$}", factor * value);
    match score.interval {
        Some((low, high)) => format!("{} [{}, {}]", number(score.value.value), number(low), number(high)),
        None => number(score.value.value),
    }
}
