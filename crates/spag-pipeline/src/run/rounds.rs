//! Statistics of the rounds of training, from their files.

use std::path::Path;

use serde_json::{Map, Value};
use spag_game::{Labels, PerSeat};
use spag_io::RowReader;
use spag_run::TrainingRow;
use spag_selfplay::{GameStats, Rate};

use crate::error::Result;
use crate::report::{LossPoint, RoundGames, RoundTraining, UpdatePoint};

/// The statistics of games.
pub(super) fn round_games(stats: &GameStats) -> RoundGames {
    let counts = stats.counts();
    let (labels, both) = (counts.labels(), stats.all_speech());
    let utterances = usize::try_from(both.utterances).unwrap_or(usize::MAX);
    let of_utterances = |count: u64| Rate::new(usize::try_from(count).unwrap_or(usize::MAX), utterances);
    RoundGames {
        games: counts.games(),
        wins: PerSeat::of(labels, |seat| Rate::of_wins(counts, seat)),
        ties: Rate::new(counts.ties(), counts.games()),
        early_guesses: Rate::new(counts.early_guesses(), counts.games()),
        empty_utterances: of_utterances(both.empty),
        repeated_utterances: of_utterances(both.repeated),
        words: PerSeat::of(labels, |seat| stats.speech(seat).mean_words),
        distinct_1: both.distinct_1,
        distinct_2: both.distinct_2,
        reasoning: stats.all_reasoning(),
    }
}

/// The training of a stage and its losses by step.
pub(super) fn round_training(metrics: &Path) -> Result<(RoundTraining, Vec<LossPoint>)> {
    let lines: Vec<TrainingRow> =
        RowReader::<TrainingRow>::open(metrics)?.map(|row| Ok(row?.1)).collect::<Result<_>>()?;
    let end = &lines[lines.len() - lines.len().div_ceil(4)..];
    let largest = |of: fn(&TrainingRow) -> Option<f64>| lines.iter().filter_map(of).reduce(f64::max);
    let training = RoundTraining {
        steps: lines.last().map_or(0, |line| line.step),
        loss: mean(end, |line| line.loss),
        kl: mean(end, |line| line.kl),
        importance_ratio_mean: mean(&lines, |line| line.importance_ratio_mean),
        importance_ratio_max: largest(|line| line.importance_ratio_max),
        clipped_fraction: mean(&lines, |line| line.clipped_fraction),
        grad_norm_max: largest(|line| line.grad_norm),
    };
    let points = lines.iter().filter_map(|line| Some(LossPoint { step: line.step, loss: line.loss? }));
    Ok((training, points.collect()))
}

/// The updates of an on-policy run; none if it has not come so far.
pub(super) fn updates(games: &[(Option<&str>, &Labels)], metrics: &Path) -> Result<Vec<UpdatePoint>> {
    if !metrics.exists() {
        return Ok(Vec::new());
    }
    let mut updates = Vec::new();
    for row in RowReader::<Map<String, Value>>::open(metrics)? {
        let (_, line) = row?;
        let update = line.get("update").and_then(Value::as_u64).unwrap_or(updates.len() as u64 + 1);
        updates.push(UpdatePoint::new(games, update, &line));
    }
    Ok(updates)
}

fn mean(lines: &[TrainingRow], of: impl Fn(&TrainingRow) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = lines.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
