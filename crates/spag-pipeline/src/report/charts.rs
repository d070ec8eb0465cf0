//! The charts of the page, each from the report's data alone.

use super::data::{LossCurve, Match, Report};
use super::html::figure;
use super::numbers::{percent, rate};
use super::svg::{Axis, Chart};
use super::text::pairings;
use crate::play_stats::PlayStats;
use crate::stats::Rate;

/// One way for a game to end: how to read it, its colour on the page, and its name.
type EndingSeries = (fn(&PlayStats) -> Rate, &'static str, &'static str);

const ENDINGS: [EndingSeries; 5] = [
    (|play| play.right_guess, "blue", "right guess"),
    (|play| play.wrong_guess, "orange", "wrong guess"),
    (|play| play.said_unknowingly, "green", "said unknowingly"),
    (|play| play.broken_rule, "pink", "broken rule"),
    (|play| play.tie, "grey", "tie"),
];

/// Win rates against IM by epoch, with their intervals as bands; the baseline stands at epoch 0.
pub(super) fn win_rates(report: &Report) -> String {
    let last = report.matches.iter().map(|game| game.epoch).max().unwrap_or(1).max(1);
    let ticks = (0..=last).map(|epoch| (epoch as f64, model_name(epoch))).collect();
    let x = Axis { from: -0.15, to: last as f64 + 0.15, label: "model".to_owned(), ticks };
    let series: [(&str, &str, &str, Option<Rate>, fn(&Match) -> Rate); 3] = [
        ("both seats", "blue", "", None, |game| game.win),
        ("as attacker", "orange", "7 4", Some(report.baseline.attacker_win), |game| game.as_attacker.attacker_win),
        ("as defender", "green", "2 4", Some(report.baseline.defender_win), |game| game.as_defender.defender_win),
    ];
    let all = series.map(|(name, colour, dash, baseline, of)| {
        // IM over both seats against itself wins half its games by construction.
        let start = baseline.or(Some(Rate { count: 0, total: 0, share: Some(0.5), low: 0.5, high: 0.5 }));
        let start = start.map(|rate| (0, rate));
        let points: Vec<(f64, Rate)> = start
            .into_iter()
            .chain(report.matches.iter().map(|game| (game.epoch, of(game))))
            .map(|(epoch, rate)| (epoch as f64, rate))
            .collect();
        (name, colour, dash, points)
    });
    let bounds = all.iter().flat_map(|(_, _, _, points)| points).filter(|(_, rate)| rate.share.is_some());
    let (low, high) = bounds.fold((0.4, 0.6), |(low, high): (f64, f64), (_, rate)| (low.min(rate.low), high.max(rate.high)));
    let y = Axis::round(100.0 * low, 100.0 * high, 5, "won, % of decided games");
    let mut chart = Chart::new(
        "Win rates against IM by epoch",
        "Lines with 95% interval bands: the model in both seats, as attacker, as defender.",
        x,
        y,
    );
    chart.rule(50.0);
    for (_, colour, _, points) in &all {
        let band: Vec<_> = points.iter().map(|(x, rate)| (*x, 100.0 * rate.low, 100.0 * rate.high)).collect();
        chart.band(&band, colour);
    }
    for (name, colour, dash, points) in &all {
        let shown = || points.iter().filter_map(|(x, rate)| Some((*x, 100.0 * rate.share?, *rate)));
        chart.line(&shown().map(|(x, y, _)| (x, y)).collect::<Vec<_>>(), colour, dash);
        let marks: Vec<_> = shown()
            .map(|(x, y, of)| (x, y, format!("{}, {name}: {} %", model_name(x as usize), rate(of))))
            .collect();
        chart.marks(&marks, colour);
    }
    figure(
        "Win rates against IM",
        &all.each_ref().map(|(name, colour, dash, _)| (*colour, line_key(dash), *name)),
        &chart.finish(),
        "Bands are 95% Wilson intervals. A broken rule is the attacker's loss; ties are not counted. \
         At IM stands IM against itself.",
    )
}

/// How games ended, one stacked bar per set of games.
fn endings(title: &str, note: &str, across: &str, bars: &[(String, &PlayStats)]) -> String {
    let ticks = bars.iter().enumerate().map(|(i, (name, _))| (i as f64 + 0.5, name.clone())).collect();
    let x = Axis { from: 0.0, to: bars.len().max(1) as f64, label: across.to_owned(), ticks };
    let mut chart =
        Chart::new(title, "Stacked bars: shares of games by how they ended.", x, Axis::round(0.0, 100.0, 5, "% of games"));
    for (i, (name, play)) in bars.iter().enumerate() {
        let mut below = 0.0;
        for (of, colour, ending) in ENDINGS {
            let share = 100.0 * of(play).share.unwrap_or(0.0);
            let (left, right) = (i as f64 + 0.12, i as f64 + 0.88);
            let hint = format!("{name}, {ending}: {} %", rate(of(play)));
            chart.bar((left, below), (right, below + share), colour, &hint, &format!("{share:.0}"));
            below += share;
        }
    }
    figure(title, &ENDINGS.map(|(_, colour, name)| (colour, "box", name)), &chart.finish(), note)
}

/// Loss by step: imitation and offline policy optimisation apart, since their losses do not compare.
pub(super) fn losses(report: &Report) -> String {
    let (imitation, spag): (Vec<_>, Vec<_>) = report.losses.iter().partition(|curve| curve.name == "IM");
    loss_chart("Training loss, imitation", &imitation, "Negative log-likelihood of the winners' utterances, and the KL term.")
        + &loss_chart(
            "Training loss, SPAG",
            &spag,
            "Clipped rewards of the winners' utterances, KL term and SFT; below 0 once good utterances become likelier.",
        )
}

fn loss_chart(title: &str, curves: &[&LossCurve], note: &str) -> String {
    const STYLES: [(&str, &str); 4] = [("blue", ""), ("orange", "7 4"), ("green", "2 4"), ("pink", "10 3 2 3")];
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|point| point.loss.is_finite());
    let steps = points().map(|point| point.step).max().unwrap_or(1);
    let (low, high) =
        points().fold((f64::MAX, f64::MIN), |(low, high), point| (low.min(point.loss), high.max(point.loss)));
    let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
    let mut chart = Chart::new(
        title,
        "A line per training stage.",
        Axis::round(0.0, steps as f64, 5, "optimizer step"),
        Axis::round(low, high, 5, "loss"),
    );
    let styled = || curves.iter().zip(STYLES.iter().cycle());
    for (curve, (colour, dash)) in styled() {
        let finite = curve.points.iter().filter(|point| point.loss.is_finite());
        chart.line(&finite.map(|point| (point.step as f64, point.loss)).collect::<Vec<_>>(), colour, dash);
    }
    let legend: Vec<_> =
        styled().map(|(curve, (colour, dash))| (*colour, line_key(dash), curve.name.as_str())).collect();
    figure(title, &legend, &chart.finish(), note)
}

/// Share of true clues of each attacker.
pub(super) fn clue_truth(report: &Report) -> String {
    let attackers: Vec<(String, Rate)> = std::iter::once(("IM".to_owned(), report.baseline.true_clues))
        .chain(report.matches.iter().map(|game| (game.name.clone(), game.as_attacker.true_clues)))
        .collect();
    let ticks = attackers.iter().enumerate().map(|(i, (name, _))| (i as f64 + 0.5, name.clone())).collect();
    let x = Axis { from: 0.0, to: attackers.len() as f64, label: "attacker, against IM".to_owned(), ticks };
    let mut chart = Chart::new(
        "True clues of each attacker",
        "A bar per attacker with a 95% interval.",
        x,
        Axis::round(0.0, 100.0, 5, "true, % of clues given"),
    );
    for (i, (name, truth)) in attackers.iter().enumerate() {
        let Some(share) = truth.share else { continue };
        let i = i as f64;
        let hint = format!("{name}: {} % of {} clues", rate(*truth), truth.total);
        chart.bar((i + 0.2, 0.0), (i + 0.8, 100.0 * share), "blue", &hint, &percent(truth.share));
        chart.whisker(i + 0.5, 100.0 * truth.low, 100.0 * truth.high, "ink");
    }
    figure(
        "True clues",
        &[("blue", "box", "clues that hold for the target word"), ("ink", "solid", "95% interval")],
        &chart.finish(),
        "The rules do not forbid lying about the word, so some of the attacker's gain may be lies. Games, not clues, \
         are independent: the intervals are somewhat too narrow.",
    )
}

/// Both ending charts: games among equals, and games against IM.
pub(super) fn all_endings(report: &Report) -> String {
    let own: Vec<_> = report.training_games.iter().map(|named| (named.name.clone(), &named.play)).collect();
    let against: Vec<_> = pairings(report)
        .into_iter()
        .filter(|(name, _)| !name.ends_with("self-play"))
        .map(|(name, play)| (name.replace("SPAG-", "S").replace(' ', ""), play))
        .collect();
    endings(
        "How games ended, each against itself",
        "The games that were learned from, and the last model's. Shares of all games, in %.",
        "player of both seats",
        &own,
    ) + &endings(
        "How games ended, against IM",
        "Evaluation games; S1 is SPAG-1. Shares of all games, in %.",
        "attacker–defender",
        &against,
    )
}

fn model_name(epoch: usize) -> String {
    match epoch {
        0 => "IM".to_owned(),
        epoch => format!("SPAG-{epoch}"),
    }
}

fn line_key(dash: &str) -> &'static str {
    match dash {
        "" => "solid",
        "7 4" => "dashed",
        "2 4" => "dotted",
        _ => "dashdot",
    }
}
