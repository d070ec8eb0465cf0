//! The updates of an on-policy run: curves on the page, and means of three parts of the run in the text, so that a policy that
//! collapses is seen.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_eval::html::figure;
use spag_game::{Labels, UtteranceKind};
use spag_run::measure_of;
use spag_selfplay::number_or_dash;

use super::charts::{MAX_POINTS, STYLES, line_key, smooth};
use super::data::Report;
use super::svg::{Axis, Chart};

/// The measures of an update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdatePoint {
    /// The update, from 1.
    pub update: u64,
    /// The measures that the report shows, by their keys in `metrics.jsonl`. What was not measured, or is not finite, is absent.
    #[serde(flatten)]
    pub values: BTreeMap<String, f64>,
}

impl UpdatePoint {
    /// A line of `metrics.jsonl`, with what a report of these games shows: the name of the folder of each, if it is one of several.
    pub fn new(games: &[(Option<&str>, &Labels)], update: u64, line: &Map<String, Value>) -> Self {
        let shown = groups(games).into_iter().flat_map(|group| group.measures);
        let values = shown.filter_map(|Measure { key, .. }| {
            let value = line.get(&key)?.as_f64()?;
            value.is_finite().then_some((key, value))
        });
        Self { update, values: values.collect() }
    }
}

/// Measures of one kind: a chart, and rows of the table.
struct Group {
    title: String,
    axis: &'static str,
    note: &'static str,
    unit: Unit,
    measures: Vec<Measure>,
}

/// How values are shown.
#[derive(Clone, Copy)]
enum Unit {
    /// Shares in per cent.
    Percent,
    /// Numbers with so many decimals.
    Number(usize),
}

struct Measure {
    key: String,
    name: String,
}

impl Unit {
    fn scale(self) -> f64 {
        match self {
            Self::Percent => 100.0,
            Self::Number(_) => 1.0,
        }
    }

    fn show(self, value: Option<f64>) -> String {
        let digits = match self {
            Self::Percent => 1,
            Self::Number(digits) => digits,
        };
        number_or_dash(value.map(|value| self.scale() * value), digits)
    }
}

fn measure(key: &str, name: &str) -> Measure {
    Measure { key: key.to_owned(), name: name.to_owned() }
}

/// The games of a run: the name of the folder of each, if it is one of several.
type Games<'a> = [(Option<&'a str>, &'a Labels)];

/// A measure of one of a run's games.
fn of_game(folder: Option<&str>, key: &str, name: &str) -> Measure {
    let name = folder.map_or_else(|| name.to_owned(), |folder| format!("{name}, {folder}"));
    Measure { key: measure_of(folder, key), name }
}

/// A measure that each of a run's games has.
fn of_games(games: &Games<'_>, key: &str, name: &str) -> Vec<Measure> {
    games.iter().map(|(folder, _)| of_game(*folder, key, name)).collect()
}

/// What came of the games of one of a run's games.
fn results(folder: Option<&str>, labels: &Labels) -> Group {
    let wins = labels
        .seats
        .map(|seat| of_game(folder, &format!("{}_wins", seat.name()), &format!("won by {}", seat.in_a_sentence())));
    Group {
        title: match folder {
            Some(folder) => format!("Results of the updates' games of {folder}"),
            None => "Results of the updates' games".to_owned(),
        },
        axis: "% of games",
        note: "Shares of all games of an update.",
        unit: Unit::Percent,
        measures: wins.into_iter().chain([of_game(folder, "ties", "ties")]).collect(),
    }
}

/// All measures, in the order of the report.
fn groups(games: &Games<'_>) -> Vec<Group> {
    let mut all: Vec<Group> = games.iter().map(|(folder, labels)| results(*folder, labels)).collect();
    all.extend(groups_of_all(games));
    all
}

/// Those that have all of a run's games in one chart.
fn groups_of_all(games: &Games<'_>) -> Vec<Group> {
    let talk: Vec<_> =
        games.iter().filter(|(_, labels)| labels.utterances == UtteranceKind::Sentences).copied().collect();
    let utterances = [
        vec![measure("empty_utterances", "empty utterances")],
        of_games(&talk, "repeated_utterances", "repeated utterances"),
        vec![measure("too_long_utterances", "over-long utterances")],
    ];
    vec![
        Group {
            title: "Score against the opponent".to_owned(),
            axis: "score, %",
            note: "A win is 1, a tie 1/2.",
            unit: Unit::Percent,
            measures: vec![measure("opponent_score", "score against the opponent")],
        },
        Group {
            title: "Entropy".to_owned(),
            axis: "nats a token",
            note: "Of the sampled tokens. A policy that collapses loses it first.",
            unit: Unit::Number(3),
            measures: vec![measure("entropy", "entropy, nats a token")],
        },
        Group {
            title: "Length of utterances".to_owned(),
            axis: "tokens",
            note: "Sampled tokens of an utterance on average.",
            unit: Unit::Number(1),
            measures: vec![measure("tokens_per_utterance", "tokens an utterance")],
        },
        Group {
            title: "Distinct words".to_owned(),
            axis: "% of all words",
            note: "Distinct words over all words of an update's games.",
            unit: Unit::Percent,
            measures: of_games(games, "distinct_words", "distinct words"),
        },
        Group {
            title: "Empty, repeated and over-long utterances".to_owned(),
            axis: "% of utterances",
            note: "Repeated: equal to an earlier one of its game. Over-long: it reached the most tokens.",
            unit: Unit::Percent,
            measures: utterances.into_iter().flatten().collect(),
        },
        Group {
            title: "Divergence from the reference model".to_owned(),
            axis: "nats a token",
            note: "Of the learned tokens.",
            unit: Unit::Number(4),
            measures: vec![measure("kl_reference", "divergence from the reference")],
        },
    ]
}

/// The groups of a report without measures that no update has.
fn measured(report: &Report) -> Vec<Group> {
    let has = |measure: &Measure| report.updates.iter().any(|point| point.values.contains_key(&measure.key));
    let games: Vec<_> = report.games().map(|game| (game.folder.as_deref(), game.labels())).collect();
    let mut groups = groups(&games);
    groups.iter_mut().for_each(|group| group.measures.retain(has));
    groups.retain(|group| !group.measures.is_empty());
    groups
}

/// The title of the table.
pub(super) const UPDATE_TITLE: &str =
    "Updates: means over the first, the middle and the last tenth of them; shares in %";

/// The first, middle and last tenth of so many updates, without repetitions in short runs.
fn parts(updates: usize) -> Vec<Range<usize>> {
    let tenth = updates.div_ceil(10);
    let mut parts: Vec<_> =
        [0, (updates - tenth) / 2, updates - tenth].map(|from| from..from + tenth).into_iter().collect();
    parts.retain(|part| !part.is_empty());
    parts.dedup();
    parts
}

/// Headers of the table: what is measured, and the updates of each part.
pub(super) fn update_columns(report: &Report) -> Vec<String> {
    let name = |part: Range<usize>| match &report.updates[part] {
        [first, .., last] => format!("updates {}–{}", first.update, last.update),
        [only] => format!("update {}", only.update),
        [] => String::new(),
    };
    std::iter::once("mean".to_owned()).chain(parts(report.updates.len()).into_iter().map(name)).collect()
}

/// Rows of the table; none without updates.
pub(super) fn update_rows(report: &Report) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for Group { unit, measures, .. } in measured(report) {
        for Measure { key, name } in measures {
            let mean = |part: Range<usize>| {
                let values: Vec<f64> =
                    report.updates[part].iter().filter_map(|point| point.values.get(&key).copied()).collect();
                unit.show((!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64))
            };
            rows.push(std::iter::once(name).chain(parts(report.updates.len()).into_iter().map(mean)).collect());
        }
    }
    rows
}

/// The charts over updates; none without updates.
pub(super) fn update_charts(report: &Report) -> String {
    measured(report).iter().map(|group| chart(report, group)).collect()
}

fn chart(report: &Report, group: &Group) -> String {
    let Group { title, axis, note, unit, measures } = group;
    let line = |Measure { key, .. }: &Measure| -> Vec<(f64, f64)> {
        let every = report.updates.len().div_ceil(MAX_POINTS).max(1);
        let points = report.updates.iter().step_by(every);
        points.filter_map(|point| Some((point.update as f64, unit.scale() * point.values.get(key)?))).collect()
    };
    let lines: Vec<_> = measures.iter().map(line).collect();
    let (low, high) =
        lines.iter().flatten().fold((f64::MAX, f64::MIN), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
    // From zero, so that a small change does not look like a collapse.
    let low = low.min(0.0);
    let last = report.updates.last().map_or(1, |point| point.update);
    let x = Axis::until(last as f64, 5, "update");
    let mut chart = Chart::new(title, "A line per measure.", x, Axis::round(low, high, 5, axis));
    let styled = || measures.iter().zip(&lines).zip(STYLES.iter().cycle());
    for ((Measure { name, .. }, line), (colour, dash)) in styled() {
        match line.as_slice() {
            // A line needs two points.
            [(update, value)] => chart.marks(&[(*update, *value, format!("{name}: {value:.3}"))], colour),
            _ => {
                chart.faint_line(line, colour);
                chart.line(&smooth(line), colour, dash);
            }
        }
    }
    let legend: Vec<_> =
        styled().map(|((measure, _), (colour, dash))| (*colour, line_key(dash), measure.name.as_str())).collect();
    figure(title, &legend, &chart.finish(), &format!("{note} Pale: update by update; bold: smoothed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_tenths_and_do_not_repeat() {
        assert!(parts(0).is_empty());
        assert_eq!(parts(1), [0..1]);
        assert_eq!(parts(2), [0..1, 1..2]);
        assert_eq!(parts(3), [0..1, 1..2, 2..3]);
        assert_eq!(parts(68), [0..7, 30..37, 61..68]);
        assert_eq!(parts(1000), [0..100, 450..550, 900..1000]);
    }
}
