//! The charts of a report.

use spag_run::Thinned;
use spag_run::document::{Chart, Look, Series};
use spag_selfplay::Rate;

use super::data::{GameReport, LossCurve, MatchReport, Report};
use super::tables::{capitalised, has_clues, pairings};
use crate::play_stats::PlayStats;

/// A line is averaged over this part of its values.
const SMOOTHED: usize = 8;

/// Win rates against IM by epoch, with their intervals. Epoch 0 is IM against itself, which wins half of the games in both seats by
/// definition.
pub(super) fn win_rates(report: &GameReport) -> Option<Chart> {
    if report.baseline.games == 0 {
        return None;
    }
    let half = Rate { count: 0, total: 0, share: Some(0.5), low: 0.5, high: 0.5 };
    let line = |name: String, baseline: Rate, of: &dyn Fn(&MatchReport) -> Rate| {
        let later = report.matches.iter().map(|game| (game.epoch, of(game)));
        rates(name, std::iter::once((0, baseline)).chain(later))
    };
    let mut series = vec![line("both seats".to_owned(), half, &|game| game.win)];
    series.extend(
        report
            .labels()
            .seats
            .map(|seat| line(format!("as {seat}"), report.baseline.win[seat], &|game| game.win_as(seat))),
    );
    let last = report.matches.iter().map(|game| game.epoch).max().unwrap_or(1);
    let model = |epoch| if epoch == 0 { "IM".to_owned() } else { format!("SPAG-{epoch}") };
    Some(Chart {
        title: "Win rates against IM".to_owned(),
        note: format!(
            "Bands are 95% Wilson intervals. {}; ties are not counted. At IM stands IM against itself.",
            capitalised(report.labels().broken_rule)
        ),
        across: "model".to_owned(),
        up: "won, % of decided games".to_owned(),
        names: (0..=last).map(model).collect(),
        includes: vec![40.0, 60.0],
        rule: Some(50.0),
        series,
        ..Chart::default()
    })
}

/// Rates by place, in per cent.
fn rates(name: impl Into<String>, rates: impl Iterator<Item = (usize, Rate)>) -> Series {
    let point = |(place, rate): (usize, Rate)| {
        Some(([place as f64, 100.0 * rate.share?], [100.0 * rate.low, 100.0 * rate.high]))
    };
    Series::with_intervals(name, rates.filter_map(point))
}

/// The share of true clues by player of the first seat, who gives them.
pub(super) fn clue_truth(report: &GameReport) -> Option<Chart> {
    if !has_clues(report) {
        return None;
    }
    let [first, _] = report.labels().seats;
    let models = report.matches.iter().map(|game| (game.name.clone(), game.seats[first].true_clues));
    let players: Vec<(String, Rate)> =
        std::iter::once(("IM".to_owned(), report.baseline.true_clues)).chain(models).collect();
    Some(Chart {
        title: "True clues".to_owned(),
        note: format!(
            "Clues that hold for the target word, with 95% intervals. The rules allow false clues, so part of the {first}'s gain \
             may be false clues. Games, not clues, are independent: the intervals are somewhat too narrow."
        ),
        look: Look::Bars,
        across: format!("{first}, against IM"),
        up: "true, % of clues given".to_owned(),
        includes: vec![0.0, 100.0],
        series: vec![rates("true clues", players.iter().map(|(_, rate)| *rate).enumerate())],
        names: players.into_iter().map(|(name, _)| name).collect(),
        ..Chart::default()
    })
}

/// The charts of endings: self-play, and games against IM.
pub(super) fn all_endings(report: &GameReport) -> impl Iterator<Item = Chart> {
    let [first, second] = report.labels().seats;
    let own: Vec<_> = report.training_games.iter().map(|named| (named.name.clone(), &named.play)).collect();
    let against: Vec<_> = pairings(report)
        .into_iter()
        .filter(|(name, _)| !name.ends_with("self-play"))
        .map(|(name, play)| (name.replace("SPAG-", "S").replace(' ', ""), play))
        .collect();
    let own = Chart {
        title: "How games ended, each against itself".to_owned(),
        note: "The games that were learned from, and the last model's.".to_owned(),
        across: "player of both seats".to_owned(),
        ..endings(report, &own)
    };
    let against = Chart {
        title: "How games ended, against IM".to_owned(),
        note: "Evaluation games; S1 is SPAG-1.".to_owned(),
        across: format!("{first}–{second}"),
        ..endings(report, &against)
    };
    [own, against].into_iter().filter_map(Chart::filled)
}

/// Endings, one bar for each set of games.
fn endings(report: &GameReport, bars: &[(String, &PlayStats)]) -> Chart {
    let series = report.endings().into_iter().map(|ending| {
        let shares =
            bars.iter().map(|(_, play)| play.endings.iter().find(|(of, _)| *of == ending).map(|(_, rate)| *rate));
        rates(ending.title, shares.enumerate().filter_map(|(at, rate)| Some((at, rate?))))
    });
    Chart {
        look: Look::Bars,
        up: "% of games".to_owned(),
        includes: vec![0.0, 100.0],
        series: series.collect(),
        names: bars.iter().map(|(name, _)| name.clone()).collect(),
        ..Chart::default()
    }
}

/// Losses by step. Imitation and offline policy optimisation have separate charts, since their losses are not comparable.
pub(super) fn losses(report: &Report) -> impl Iterator<Item = Chart> {
    let (imitation, spag): (Vec<_>, Vec<_>) = report.losses.iter().partition(|curve| curve.name == "IM");
    let imitation = Chart {
        title: "Training loss, imitation".to_owned(),
        note:
            "Negative log-likelihood of the winners' utterances, and the KL term. Pale: step by step; bold: smoothed."
                .to_owned(),
        ..loss_chart(&imitation)
    };
    let spag = Chart {
        title: "Training loss, SPAG".to_owned(),
        note: "Clipped rewards of the winners' utterances, KL term and SFT. Mostly the batches' mean rewards: read its fall, not its level."
            .to_owned(),
        ..loss_chart(&spag)
    };
    [imitation, spag].into_iter().filter_map(Chart::filled)
}

fn loss_chart(curves: &[&LossCurve]) -> Chart {
    let line =
        |curve: &&LossCurve| Series::new(&curve.name, curve.points.iter().map(|point| [point.step as f64, point.loss]));
    Chart { up: "loss".to_owned(), ..curve("optimizer step", curves.iter().map(line).collect()) }
}

/// A chart of long lines: thinned, and smoothed.
pub(super) fn curve(across: &str, series: Vec<Series>) -> Chart {
    let thinned = |Series { points, .. }: &Series| {
        let mut kept = Thinned::default();
        points.iter().for_each(|point| kept.add(*point));
        kept.iter().copied().collect::<Vec<_>>()
    };
    let series: Vec<Series> = series.into_iter().map(|series| Series { points: thinned(&series), ..series }).collect();
    let longest = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let smooth = longest / SMOOTHED;
    Chart { across: across.to_owned(), smooth, series, ..Chart::default() }
}
