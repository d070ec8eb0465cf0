//! The table of scores.

use spag_selfplay::text_table;

use crate::results::{MetricScore, ModelScores, TaskScore};

/// Whether a table has the tasks of groups too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Every task.
    All,
    /// Groups, and tasks without one.
    Groups,
}

/// The scores of all models as plain text: groups and tasks without a group, one line a metric. Texts of others are escaped.
pub fn render_table(models: &[ModelScores]) -> String {
    let (head, rows) = cells(models, Rows::Groups);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut text = text_table(&head, &rows);
    for model in models.iter().filter(|model| model.cut > 0) {
        let name = spag_io::quote(&model.name);
        text.push_str(&format!(
            "\n  {name}: {} rows were longer than the model sees, and their prompts lost their beginning\n",
            model.cut
        ));
    }
    text
}

/// Header and rows.
pub(super) fn cells(models: &[ModelScores], which: Rows) -> (Vec<String>, Vec<Vec<String>>) {
    let names = models.iter().map(|model| spag_io::quote(&model.name));
    let head = ["task", "metric", "rows", "chance"].into_iter().map(str::to_owned).chain(names).collect();
    let mut rows = Vec::new();
    let Some(first) = models.first() else { return (head, rows) };
    for task in first.tasks.iter().filter(|task| which == Rows::All || task.group.is_none()) {
        for (at, metric) in task.metrics.iter().enumerate() {
            let chance =
                task.chance.filter(|_| at == 0).map_or("–".to_owned(), |chance| format!("{:.1}", 100.0 * chance));
            let name = if task.group.is_some() { format!("· {}", task.alias) } else { task.alias.clone() };
            let mut row = vec![name, metric_name(metric), task.rows.to_string(), chance];
            row.extend(models.iter().map(|model| {
                let same = |other: &&TaskScore| other.name == task.name && other.is_group == task.is_group;
                let found = model.tasks.iter().find(same).and_then(|task| task.metrics.get(at));
                found.map_or("–".to_owned(), show)
            }));
            rows.push(row);
        }
    }
    (head, rows)
}

fn metric_name(metric: &MetricScore) -> String {
    match metric.filter.as_str() {
        "none" => metric.metric.name().to_owned(),
        filter => format!("{} ({filter})", metric.metric),
    }
}

/// A value with its interval: a share in per cent.
pub(super) fn show(score: &MetricScore) -> String {
    let factor = if score.metric.higher_is_better() { 100.0 } else { 1.0 };
    let digits = if score.metric.higher_is_better() { 1 } else { 3 };
    let number = |value: f64| format!("{:.digits$}", factor * value);
    match score.interval {
        Some((low, high)) => format!("{} [{}, {}]", number(score.value.value), number(low), number(high)),
        None => number(score.value.value),
    }
}
