//! The charts of the page.

use spag_eval::html::figure;
use spag_game::Ending;
use spag_selfplay::Rate;

use super::data::{GameReport, LossCurve, MatchReport, Report};
use super::page::capitalised;
use super::svg::{Axis, Chart};
use super::text::{pairings, percent};
use crate::play_stats::PlayStats;

/// The colours of endings, in the order of reports; more endings begin again.
const COLOURS: [&str; 5] = ["blue", "orange", "green", "pink", "grey"];

/// A line of the win-rate chart.
struct Series {
    name: String,
    colour: &'static str,
    dash: &'static str,
    /// Epochs (0 is IM) with a rate.
    points: Vec<(usize, Rate)>,
}

/// The lines for both seats and for each seat. Epoch 0 is IM against itself, which wins half of the games in both seats by
/// definition.
fn win_series(report: &GameReport) -> [Series; 3] {
    let half = Rate { count: 0, total: 0, share: Some(0.5), low: 0.5, high: 0.5 };
    let series = |name, colour, dash, baseline: Rate, of: &dyn Fn(&MatchReport) -> Rate| {
        let later = report.matches.iter().map(|game| (game.epoch, of(game)));
        let points = std::iter::once((0, baseline)).chain(later).filter(|(_, rate)| rate.share.is_some()).collect();
        Series { name, colour, dash, points }
    };
    let own = |seat, colour, dash| {
        series(format!("as {seat}"), colour, dash, report.baseline.win[seat], &|game| game.win_as(seat))
    };
    let [first, second] = report.labels().seats;
    [
        series("both seats".to_owned(), "blue", "", half, &|game| game.win),
        own(first, "orange", "7 4"),
        own(second, "green", "2 4"),
    ]
}

/// Win rates against IM by epoch, with intervals as bands.
pub(super) fn win_rates(report: &GameReport) -> String {
    let all = win_series(report);
    let last = report.matches.iter().map(|game| game.epoch).max().unwrap_or(1).max(1);
    let ticks = (0..=last).map(|epoch| (epoch as f64, model_name(epoch))).collect();
    let x = Axis { from: -0.15, to: last as f64 + 0.15, label: "model".to_owned(), ticks };
    let rates = all.iter().flat_map(|series| &series.points);
    let (low, high) =
        rates.fold((0.4, 0.6), |(low, high): (f64, f64), (_, rate)| (low.min(rate.low), high.max(rate.high)));
    let [first, second] = report.labels().seats;
    let mut chart = Chart::new(
        "Win rates against IM by epoch",
        &format!("Lines with 95% interval bands: the model in both seats, as {first}, as {second}."),
        x,
        Axis::round(100.0 * low, 100.0 * high, 5, "won, % of decided games"),
    );
    chart.rule(50.0);
    for Series { colour, points, .. } in &all {
        let band = points.iter().map(|(epoch, rate)| (*epoch as f64, 100.0 * rate.low, 100.0 * rate.high));
        chart.band(&band.collect::<Vec<_>>(), colour);
    }
    for Series { name, colour, dash, points } in &all {
        let shown = points.iter().filter_map(|(epoch, rate)| Some((*epoch, 100.0 * rate.share?, *rate)));
        let line: Vec<_> = shown.clone().map(|(epoch, percent, _)| (epoch as f64, percent)).collect();
        chart.line(&line, colour, dash);
        let hint = |epoch, of| format!("{}, {name}: {} %", model_name(epoch), of);
        let marks: Vec<_> = shown.map(|(epoch, percent, of)| (epoch as f64, percent, hint(epoch, of))).collect();
        chart.marks(&marks, colour);
    }
    figure(
        "Win rates against IM",
        &all.each_ref().map(|series| (series.colour, line_key(series.dash), series.name.as_str())),
        &chart.finish(),
        &format!(
            "Bands are 95% Wilson intervals. {}; ties are not counted. At IM stands IM against itself.",
            capitalised(report.labels().broken_rule)
        ),
    )
}

/// Endings, one stacked bar per set of games.
fn endings(endings: &[Ending], title: &str, note: &str, across: &str, bars: &[(String, &PlayStats)]) -> String {
    let ticks = bars.iter().enumerate().map(|(i, (name, _))| (i as f64 + 0.5, name.clone())).collect();
    let x = Axis { from: 0.0, to: bars.len().max(1) as f64, label: across.to_owned(), ticks };
    let mut chart = Chart::new(
        title,
        "Stacked bars: shares of games by how they ended.",
        x,
        Axis::round(0.0, 100.0, 5, "% of games"),
    );
    for (i, (name, play)) in bars.iter().enumerate() {
        let mut below = 0.0;
        for ((ending, rate), colour) in play.endings.iter().zip(COLOURS.into_iter().cycle()) {
            let share = 100.0 * rate.share.unwrap_or(0.0);
            let (left, right) = (i as f64 + 0.12, i as f64 + 0.88);
            let hint = format!("{name}, {}: {rate} %", ending.title);
            chart.bar((left, below), (right, below + share), colour, &hint, &format!("{share:.0}"));
            below += share;
        }
    }
    let endings = endings.iter().zip(COLOURS.into_iter().cycle());
    let legend: Vec<_> = endings.map(|(ending, colour)| (colour, "box", ending.title)).collect();
    figure(title, &legend, &chart.finish(), note)
}

/// Losses by step. Imitation and offline policy optimisation have separate charts, since their losses are not comparable.
pub(super) fn losses(report: &Report) -> String {
    let (imitation, spag): (Vec<_>, Vec<_>) = report.losses.iter().partition(|curve| curve.name == "IM");
    loss_chart(
        "Training loss, imitation",
        &imitation,
        "Negative log-likelihood of the winners' utterances, and the KL term. Pale: step by step; bold: smoothed.",
    ) + &loss_chart(
        "Training loss, SPAG",
        &spag,
        "Clipped rewards of the winners' utterances, KL term and SFT. Mostly the batches' mean rewards: read its fall, not its level.",
    )
}

/// Colours and dashes of lines, in order.
pub(super) const STYLES: [(&str, &str); 4] = [("blue", ""), ("orange", "7 4"), ("green", "2 4"), ("pink", "10 3 2 3")];

/// The most points of a curve; of a longer one, every second is drawn, or every third and so on.
pub(super) const MAX_POINTS: usize = 10_000;

fn loss_chart(title: &str, curves: &[&LossCurve], note: &str) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|point| point.loss.is_finite());
    let steps = points().map(|point| point.step).max().unwrap_or(1);
    let (low, high) =
        points().fold((f64::MAX, f64::MIN), |(low, high), point| (low.min(point.loss), high.max(point.loss)));
    let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
    let mut chart = Chart::new(
        title,
        "A line per training stage.",
        Axis::until(steps as f64, 5, "optimizer step"),
        Axis::round(low, high, 5, "loss"),
    );
    let styled = || curves.iter().zip(STYLES.iter().cycle());
    for (curve, (colour, dash)) in styled() {
        let every = curve.points.len().div_ceil(MAX_POINTS).max(1);
        let finite = curve.points.iter().step_by(every).filter(|point| point.loss.is_finite());
        let line: Vec<(f64, f64)> = finite.map(|point| (point.step as f64, point.loss)).collect();
        chart.faint_line(&line, colour);
        chart.line(&smooth(&line), colour, dash);
    }
    let legend: Vec<_> =
        styled().map(|(curve, (colour, dash))| (*colour, line_key(dash), curve.name.as_str())).collect();
    figure(title, &legend, &chart.finish(), note)
}

/// Moving averages over a sixteenth of all points to either side.
pub(super) fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let reach = points.len() / 16;
    let mean = |(i, (x, _)): (usize, &(f64, f64))| {
        let near = points.iter().skip(i.saturating_sub(reach)).take(i.min(reach) + reach + 1);
        let (sum, count) = near.fold((0.0, 0.0), |(sum, count), (_, y)| (sum + y, count + 1.0));
        (*x, sum / count)
    };
    points.iter().enumerate().map(mean).collect()
}

/// The share of true clues by player of the first seat, who gives them.
pub(super) fn clue_truth(report: &GameReport) -> String {
    let [first, _] = report.labels().seats;
    let players: Vec<(String, Rate)> = std::iter::once(("IM".to_owned(), report.baseline.true_clues))
        .chain(report.matches.iter().map(|game| (game.name.clone(), game.seats[first].true_clues)))
        .collect();
    let ticks = players.iter().enumerate().map(|(i, (name, _))| (i as f64 + 0.5, name.clone())).collect();
    let x = Axis { from: 0.0, to: players.len() as f64, label: format!("{first}, against IM"), ticks };
    let mut chart = Chart::new(
        &format!("True clues of each {first}"),
        &format!("A bar per {first} with a 95% interval."),
        x,
        Axis::round(0.0, 100.0, 5, "true, % of clues given"),
    );
    for (i, (name, truth)) in players.iter().enumerate() {
        let Some(share) = truth.share else { continue };
        let i = i as f64;
        let hint = format!("{name}: {} % of {} clues", truth, truth.total);
        chart.bar((i + 0.2, 0.0), (i + 0.8, 100.0 * share), "blue", &hint, &percent(truth.share));
        chart.line(&[(i + 0.5, 100.0 * truth.low), (i + 0.5, 100.0 * truth.high)], "ink", "");
    }
    figure(
        "True clues",
        &[("blue", "box", "clues that hold for the target word"), ("ink", "solid", "95% interval")],
        &chart.finish(),
        &format!(
            "The rules allow false clues, so part of the {first}'s gain may be false clues. Games, not clues, \
             are independent: the intervals are somewhat too narrow."
        ),
    )
}

/// The charts of endings: self-play, and games against IM.
pub(super) fn all_endings(report: &GameReport) -> String {
    let [first, second] = report.labels().seats;
    let own: Vec<_> = report.training_games.iter().map(|named| (named.name.clone(), &named.play)).collect();
    let against: Vec<_> = pairings(report)
        .into_iter()
        .filter(|(name, _)| !name.ends_with("self-play"))
        .map(|(name, play)| (name.replace("SPAG-", "S").replace(' ', ""), play))
        .collect();
    endings(
        &report.endings(),
        "How games ended, each against itself",
        "The games that were learned from, and the last model's. Shares of all games, in %.",
        "player of both seats",
        &own,
    ) + &endings(
        &report.endings(),
        "How games ended, against IM",
        "Evaluation games; S1 is SPAG-1. Shares of all games, in %.",
        &format!("{first}–{second}"),
        &against,
    )
}

fn model_name(epoch: usize) -> String {
    if epoch == 0 { "IM".to_owned() } else { format!("SPAG-{epoch}") }
}

/// What a legend calls a dash pattern.
pub(super) fn line_key(dash: &str) -> &'static str {
    match dash {
        "" => "solid",
        "7 4" => "dashed",
        "2 4" | "1 3" => "dotted",
        _ => "dashdot",
    }
}
