//! Two models on the same rows: the mean difference of their scores, and whether chance explains it.

use serde::{Deserialize, Serialize};
use spag_selfplay::Change;

use crate::metric::{Metric, Value, mean_value};
use crate::results::{ModelResults, Z95};

/// The name of the comparison over the rows of all tasks.
pub(crate) const ALL_TASKS: &str = "all rows";

/// How the scores of a model differ from those of another one on the rows that both answered, in the main metric of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedDifference {
    /// The name of the task in tables, its group, or "all rows".
    pub task: String,
    /// The metric; `None` over all tasks, each of which has its own.
    pub metric: Option<Metric>,
    /// Rows that both answered.
    pub rows: usize,
    /// Rows with a higher score than the other model's.
    pub better: usize,
    /// Rows with a lower score.
    pub worse: usize,
    /// The mean of the rows' differences in points, 1.96 standard errors to both sides.
    pub change: Change,
    /// Two-sided p of the sign test over the rows that differ; of rows that are right or wrong McNemar's exact test.
    pub p: f64,
}

impl ModelResults {
    /// Compares with `other` on the rows that both answered: each task without a group, each group, and all rows. The result is
    /// in [`ModelScores::paired`](crate::ModelScores::paired). Perplexities are not compared.
    pub fn compare_with(&mut self, other: &Self) {
        let tasks = self.main_scores.iter().filter_map(|own| {
            let others = other.main_scores.iter().find(|known| known.task == own.task)?;
            let differences = own.rows.iter().zip(&others.rows).map(|(own, other)| own - other);
            Some((own, differences.collect::<Vec<f64>>()))
        });
        let labelled = by_label(tasks, |known: &mut Vec<f64>, more| known.extend_from_slice(more));
        let of = |Labelled { label, metric, rows }: Labelled<Vec<f64>>| difference(label, metric, &rows);
        self.scores.paired = labelled.into_iter().filter_map(of).collect();
    }
}

/// Rows of a task without a group, of a group, or of all tasks.
pub(crate) struct Labelled<R> {
    pub(crate) label: String,
    /// `None` over all tasks.
    pub(crate) metric: Option<Metric>,
    pub(crate) rows: R,
}

/// The rows of tasks by their labels, in order, and if there are several labels also those of all tasks. `join` adds rows to others.
pub(crate) fn by_label<'a, R: Clone>(
    tasks: impl IntoIterator<Item = (&'a MainScores, R)>,
    join: impl Fn(&mut R, &R),
) -> Vec<Labelled<R>> {
    let mut labelled: Vec<Labelled<R>> = Vec::new();
    let mut all: Option<R> = None;
    for (MainScores { label, metric, .. }, rows) in tasks {
        match &mut all {
            Some(all) => join(all, &rows),
            none => *none = Some(rows.clone()),
        }
        match labelled.iter_mut().find(|known| known.label == *label) {
            Some(known) => join(&mut known.rows, &rows),
            None => labelled.push(Labelled { label: label.clone(), metric: Some(*metric), rows }),
        }
    }
    if let Some(rows) = all.filter(|_| labelled.len() > 1) {
        labelled.push(Labelled { label: ALL_TASKS.to_owned(), metric: None, rows });
    }
    labelled
}

/// The main metric of each row of a task, in which higher is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MainScores {
    pub(crate) task: String,
    /// The group of a task, or its name in tables.
    pub(crate) label: String,
    pub(crate) metric: Metric,
    pub(crate) rows: Vec<f64>,
}

fn difference(task: String, metric: Option<Metric>, differences: &[f64]) -> Option<PairedDifference> {
    let Value { value, stderr } = mean_value(differences);
    let half = Z95 * stderr?;
    let better = differences.iter().filter(|difference| **difference > 0.0).count();
    let worse = differences.iter().filter(|difference| **difference < 0.0).count();
    let change = Change { points: 100.0 * value, low: 100.0 * (value - half), high: 100.0 * (value + half) };
    Some(PairedDifference { task, metric, rows: differences.len(), better, worse, change, p: sign_test(better, worse) })
}

/// The two-sided p of `a` against `b` tosses of a fair coin: twice the smaller tail, at most 1.
fn sign_test(a: usize, b: usize) -> f64 {
    let tosses = a + b;
    // ln of P(k heads), from k = 0 on.
    let mut log_probability = -(tosses as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for heads in 0..=a.min(b) {
        tail += log_probability.exp();
        log_probability += ((tosses - heads) as f64 / (heads + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of R's `binom.test(a, a + b)`.
    #[test]
    fn sign_test_is_the_exact_binomial_test() {
        for (a, b, p) in [(0, 0, 1.0), (0, 5, 0.0625), (3, 7, 0.34375), (15, 5, 0.041_389_465_332_031), (10, 10, 1.0)] {
            assert!((sign_test(a, b) - p).abs() < 1e-12, "{a} {b}: {}", sign_test(a, b));
            assert_eq!(sign_test(a, b), sign_test(b, a));
        }
        // Far beyond what a factorial allows: 4 standard deviations of a normal distribution.
        let p = sign_test(5_200, 4_800);
        assert!((p - 6.6e-5).abs() < 0.3e-5, "{p}");
    }

    #[test]
    fn differences_have_the_interval_of_their_mean() {
        let rows: Vec<f64> = [vec![1.0; 30], vec![-1.0; 10], vec![0.0; 60]].concat();
        let found = difference("t".into(), Some(Metric::Acc), &rows).unwrap();
        assert_eq!((found.rows, found.better, found.worse), (100, 30, 10));
        // The variance of ±1 and 0 is (40 − 20²/100)/99.
        let half = 1.959_963_985 * (36.0f64 / 99.0 / 100.0).sqrt() * 100.0;
        assert!((found.change.points - 20.0).abs() < 1e-9 && (found.change.high - 20.0 - half).abs() < 1e-6);
        assert_eq!(difference("t".into(), None, &[1.0]), None, "one row has no standard error");
    }
}
