//! A model against others on the same rows, over the seeds of a run: the answer to whether it is better than its controls.

use serde::{Deserialize, Serialize};
use spag_run::document::Table;
use spag_selfplay::Change;

use crate::metric::Metric;
use crate::paired::{ALL_TASKS, Labelled, MainScores, by_label};
use crate::pooled::pooled_change;
use crate::results::ModelResults;

/// The rows of the models of a run that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// The run's seed.
    pub seed: u64,
    /// The model that is compared with the others, which follow.
    pub models: Vec<ComparedModel>,
}

/// A model with its score in each row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedModel {
    /// The name in tables.
    pub name: String,
    /// Of each task the score of each row in the main metric, from 0 to 1.
    tasks: Vec<MainScores>,
}

/// A model against others, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The model.
    pub model: String,
    /// The others, in the order of their columns.
    pub others: Vec<String>,
    /// Seeds.
    pub seeds: usize,
    /// Each task without a group, each group, and all rows.
    pub tasks: Vec<ComparedTask>,
}

/// The scores in a task or a group on the rows that all models answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedTask {
    /// The name in tables.
    pub task: String,
    /// The metric; `None` over all tasks, each of which has its own.
    pub metric: Option<Metric>,
    /// Rows.
    pub rows: usize,
    /// The model's score, the mean over rows and seeds, from 0 to 1.
    pub score: f64,
    /// The score of each other model, and the model's minus it.
    pub others: Vec<(f64, Change)>,
}

impl ComparedModel {
    /// The rows of a model's results.
    pub fn new(results: &ModelResults) -> Self {
        Self { name: results.scores.name.clone(), tasks: results.main_scores.clone() }
    }

    fn rows(&self, task: &str) -> Option<&[f64]> {
        self.tasks.iter().find(|own| own.task == task).map(|own| &own.rows[..])
    }
}

impl Comparison {
    /// Compares the first model of each run with the others. Models and tasks are those that all runs have.
    ///
    /// `None` without runs, without two models, or without a row that all of them answered.
    pub fn new(runs: &[ComparedRun]) -> Option<Self> {
        let first = runs.first()?;
        let is_in_all = |name: &&String| runs.iter().all(|run| run.models.iter().any(|model| model.name == **name));
        let names: Vec<String> = first.models.iter().map(|model| &model.name).filter(is_in_all).cloned().collect();
        let (model, others) = names.split_first().filter(|(_, others)| !others.is_empty())?;
        let tasks = first.models.first()?.tasks.iter();
        let labelled =
            by_label(tasks.filter_map(|own| Some((own, rows_of(runs, &names, &own.task)?))), |known, more| {
                for (known, more) in known.iter_mut().flatten().zip(more.iter().flatten()) {
                    known.extend_from_slice(more);
                }
            });
        let tasks: Vec<ComparedTask> = labelled.into_iter().filter_map(compared).collect();
        let (model, others) = (model.clone(), others.to_vec());
        (!tasks.is_empty()).then_some(Self { model, others, seeds: runs.len(), tasks })
    }

    /// A line a task: scores in per cent, and what the model scores more than each other one in points.
    pub fn table(&self) -> Table {
        let columns = ["task", "metric", "rows", &self.model].into_iter().map(str::to_owned);
        let of_others = self.others.iter().flat_map(|other| [other.clone(), format!("more than {other}")]);
        let row = |task: &ComparedTask| {
            let metric = task.metric.map_or("–".to_owned(), |metric| metric.to_string());
            let percent = |share: f64| format!("{:.1}", 100.0 * share);
            let mut row = vec![task.task.clone(), metric, task.rows.to_string(), percent(task.score)];
            row.extend(task.others.iter().flat_map(|(score, more)| [percent(*score), with_verdict(more)]));
            row
        };
        let seeds = if self.seeds == 1 { "one seed".to_owned() } else { format!("{} seeds", self.seeds) };
        let title = format!(
            "{} against the others on the rows that all answered, {seeds}: % of rows, and points [95% interval] with the word above or \
             below where they are beyond chance",
            self.model
        );
        Table::new(title, columns.chain(of_others), self.tasks.iter().map(row).collect())
    }

    /// What follows from the last line, a sentence each; `controls` are those of the others that are controls.
    pub fn conclusions(&self, controls: &[&str]) -> Vec<String> {
        let Some(last) = self.tasks.last() else { return Vec::new() };
        let place = if last.task == ALL_TASKS { "Over all rows".to_owned() } else { format!("In {}", last.task) };
        let compared = self.others.iter().zip(&last.others).filter(|(other, _)| controls.contains(&other.as_str()));
        let (above, not): (Vec<_>, Vec<_>) = compared.partition(|(_, (_, more))| more.low > 0.0);
        let named = |all: &[(&String, &(f64, Change))]| {
            all.iter().map(|(name, (_, more))| format!("{name} ({more})")).collect::<Vec<_>>()
        };
        let model = &self.model;
        let mut said = Vec::new();
        if !not.is_empty() {
            said.push(format!(
                "{place} {model} is not above {} beyond chance: this does not show that games made it better.",
                named(&not).join(" or ")
            ));
        } else if !above.is_empty() {
            said.push(format!("{place} {model} is above {} beyond chance.", named(&above).join(" and ")));
        }
        if self.seeds == 1 && !said.is_empty() {
            said.push("With one seed the intervals do not have what seeds differ.".to_owned());
        }
        said
    }
}

/// The change, and whether it is beyond chance.
fn with_verdict(change: &Change) -> String {
    let verdict = if change.low > 0.0 {
        " above"
    } else if change.high < 0.0 {
        " below"
    } else {
        ""
    };
    format!("{change}{verdict}")
}

/// Of each model, the rows of each seed.
type SeedRows = Vec<Vec<Vec<f64>>>;

/// The rows of a task, of each model and seed those that all of them answered; `None` if one has none.
fn rows_of(runs: &[ComparedRun], names: &[String], task: &str) -> Option<SeedRows> {
    let of = |name: &String, run: &ComparedRun| {
        Some(run.models.iter().find(|model| model.name == *name)?.rows(task)?.to_vec())
    };
    let mut all: SeedRows =
        names.iter().map(|name| runs.iter().map(|run| of(name, run)).collect()).collect::<Option<_>>()?;
    let rows = all.iter().flatten().map(Vec::len).min()?;
    all.iter_mut().flatten().for_each(|seed| seed.truncate(rows));
    Some(all)
}

/// The line of a label.
fn compared(Labelled { label, metric, rows: models }: Labelled<SeedRows>) -> Option<ComparedTask> {
    let (own, others) = models.split_first()?;
    let mean = |seeds: &[Vec<f64>]| {
        let rows: usize = seeds.iter().map(Vec::len).sum();
        seeds.iter().flatten().sum::<f64>() / rows as f64
    };
    let versus = |other: &Vec<Vec<f64>>| {
        let seed = |(own, other): (&Vec<f64>, &Vec<f64>)| own.iter().zip(other).map(|(a, b)| a - b).collect();
        let differences: Vec<Vec<f64>> = own.iter().zip(other).map(seed).collect();
        Some((mean(other), pooled_change(&differences)?))
    };
    let others = others.iter().map(versus).collect::<Option<_>>()?;
    Some(ComparedTask { task: label, metric, rows: own.first()?.len(), score: mean(own), others })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model's name, with the rows of its tasks.
    type Answers<'a> = (&'a str, &'a [(&'a str, &'a [f64])]);

    fn run(seed: u64, models: &[Answers<'_>]) -> ComparedRun {
        let model = |(name, tasks): &Answers<'_>| ComparedModel {
            name: (*name).to_owned(),
            tasks: tasks
                .iter()
                .map(|(task, rows)| MainScores {
                    task: (*task).to_owned(),
                    label: task.trim_end_matches(char::is_numeric).to_owned(),
                    metric: Metric::Acc,
                    rows: rows.to_vec(),
                })
                .collect(),
        };
        ComparedRun { seed, models: models.iter().map(model).collect() }
    }

    #[test]
    fn rows_that_all_answered_are_compared_by_task_and_over_all() {
        let one = run(
            0,
            &[
                ("SPAG", &[("a1", &[1.0, 1.0, 1.0, 0.0]), ("a2", &[1.0, 0.0]), ("b", &[0.0, 1.0])]),
                ("base", &[("a1", &[0.0, 1.0, 1.0]), ("a2", &[1.0, 0.0]), ("b", &[0.0, 0.0]), ("c", &[1.0])]),
                ("alone", &[("b", &[0.0, 1.0])]),
            ],
        );
        let two = run(1, &[("SPAG", &[("b", &[1.0, 1.0])]), ("base", &[("b", &[0.0, 0.0])])]);
        let found = Comparison::new(std::slice::from_ref(&one)).unwrap();
        let lines: Vec<(&str, usize)> = found.tasks.iter().map(|task| (&*task.task, task.rows)).collect();
        assert_eq!(lines, [("b", 2)], "a task that one of the models lacks is left out");

        let both = Comparison::new(&[ComparedRun { models: one.models[..2].to_vec(), ..one.clone() }, two]).unwrap();
        assert_eq!((both.others.clone(), both.seeds), (vec!["base".to_owned()], 2));
        assert_eq!((both.tasks[0].score, both.tasks[0].others[0].0), (0.75, 0.0));
        assert_eq!(both.tasks[0].others[0].1.points, 75.0);

        let pair = Comparison::new(&[ComparedRun { models: one.models[..2].to_vec(), ..one }]).unwrap();
        let lines: Vec<(&str, usize)> = pair.tasks.iter().map(|task| (&*task.task, task.rows)).collect();
        assert_eq!(lines, [("a", 5), ("b", 2), (ALL_TASKS, 7)]);
        assert!((pair.tasks[2].score - 5.0 / 7.0).abs() < 1e-12);
        assert_eq!(Comparison::new(&[]), None);
    }

    #[test]
    fn conclusions_name_the_controls_that_explain_the_score() {
        let rows = |right: usize| (0..400).map(|row| f64::from(u8::from(row < right))).collect::<Vec<f64>>();
        let (spag, base, drawn, text) = (rows(300), rows(200), rows(220), rows(299));
        assert_eq!(Comparison::new(&[run(0, &[])]), None);
        let found = Comparison::new(&[run(
            0,
            &[
                ("SPAG-1", &[("t", &spag)]),
                ("base", &[("t", &base)]),
                ("random-winner", &[("t", &drawn)]),
                ("general-text", &[("t", &text)]),
            ],
        )])
        .unwrap();
        let both = found.conclusions(&["random-winner", "general-text"]);
        assert!(both[0].contains("not above general-text (+0.2 [") && !both[0].contains("random-winner"), "{both:?}");
        assert!(both[1].contains("one seed"));
        let one = found.conclusions(&["random-winner"]);
        assert!(one[0].contains("is above random-winner (+20.0 ["), "{one:?}");
        let table = found.table();
        assert!(table.rows[0][5].ends_with(" above") && !table.rows[0][9].contains("above"), "{table:?}");
        assert_eq!(table.columns.len(), table.rows[0].len());
    }
}
