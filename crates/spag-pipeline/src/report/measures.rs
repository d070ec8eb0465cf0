//! The measures of an on-policy run that its report shows, so that a policy that collapses is seen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_game::{Labels, UtteranceKind};
use spag_run::measure_of;
use spag_selfplay::number_or_dash;

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
pub(super) struct Group {
    pub(super) title: String,
    pub(super) axis: &'static str,
    pub(super) note: &'static str,
    pub(super) unit: Unit,
    pub(super) measures: Vec<Measure>,
}

/// How values are shown.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Shares in per cent.
    Percent,
    /// Numbers with so many decimals.
    Number(usize),
}

/// A measure: its key in `metrics.jsonl`, and its name.
pub(super) struct Measure {
    pub(super) key: String,
    pub(super) name: String,
}

impl Unit {
    /// What a value is multiplied by.
    pub(super) fn scale(self) -> f64 {
        match self {
            Self::Percent => 100.0,
            Self::Number(_) => 1.0,
        }
    }

    /// A value as text, or a dash.
    pub(super) fn show(self, value: Option<f64>) -> String {
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
pub(super) fn groups(games: &Games<'_>) -> Vec<Group> {
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
            title: "Signal".to_owned(),
            axis: "% of groups, % of games",
            note: "Groups whose games all have equal rewards, so that nothing is learned (batches, if a group is one game); games that are not learned from.",
            unit: Unit::Percent,
            measures: vec![
                measure("without_signal", "groups without a signal"),
                measure("left_out_games", "games left out"),
            ],
        },
        Group {
            title: "Variance of rewards".to_owned(),
            axis: "variance",
            note: "Of a seat's rewards in a group on average (in a batch, if a group is one game). Without it nothing is learned.",
            unit: Unit::Number(3),
            measures: vec![measure("reward_variance", "variance of rewards")],
        },
        Group {
            title: "Information about the item".to_owned(),
            axis: "nats",
            note: "Between prompts and first utterances, at least. It falls to 0 if what is said stops depending on what the game is about.",
            unit: Unit::Number(3),
            measures: vec![measure("item_information", "information about the item, nats")],
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
            title: "Length of reasoning".to_owned(),
            axis: "characters",
            note: "Before an utterance on average. A policy that stops thinking loses it first.",
            unit: Unit::Number(1),
            measures: of_games(games, "reasoning_characters", "characters of reasoning"),
        },
        Group {
            title: "Empty, forced and unfinished reasoning".to_owned(),
            axis: "% of utterances",
            note: "Forced: its budget was used up. Unfinished: the completion ended within it, so that nothing was said.",
            unit: Unit::Percent,
            measures: [
                of_games(games, "empty_reasoning", "empty reasoning"),
                of_games(games, "forced_reasoning", "forced reasoning"),
                of_games(games, "unfinished_reasoning", "unfinished reasoning"),
            ]
            .into_iter()
            .flatten()
            .collect(),
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
