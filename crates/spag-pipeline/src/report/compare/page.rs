//! Arms as a page: curves over games and over seconds, and the tables.

use spag_eval::html::{escape, figure, page, table};
use spag_selfplay::signed;

use super::changes::{Measure, Question, Words};
use super::text::{ArmTable, arms_warnings, tables};
use super::{Arm, labels};
use crate::report::charts::line_key;
use crate::report::data::Report;
use crate::report::svg::{Axis, Chart};

/// Colours and dashes of arms; more arms begin again.
const STYLES: [(&str, &str); 5] =
    [("blue", ""), ("orange", "7 4"), ("green", "2 4"), ("pink", "10 3 2 3"), ("grey", "1 3")];

/// What models are placed by.
#[derive(Clone, Copy)]
enum Cost {
    Games,
    Seconds,
}

/// Arms as one page without scripts or external links: how each model's scores and win rates differ from those of IM, by the games
/// and the seconds that were spent on it after imitation.
pub fn arms_page(arms: &[Arm]) -> String {
    let charts = Words::ALL.into_iter().filter(|words| words.are_in(arms)).map(|words| {
        let all = [(Measure::Score, Cost::Games), (Measure::WinRate, Cost::Games), (Measure::Score, Cost::Seconds)];
        let charts: String = all.into_iter().flat_map(|(measure, cost)| of_seats(arms, measure, words, cost)).collect();
        let title = match Words::HeldOut.are_in(arms) {
            true => format!("On {}", words.title()),
            false => "By cost".to_owned(),
        };
        format!(r#"<h2>{}</h2><div class="charts">{charts}</div>"#, escape(&title))
    });
    let tables = tables(arms).into_iter().map(|ArmTable { title, columns, rows }| {
        table(&title, &columns.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    });
    let warnings = arms_warnings(arms).into_iter();
    let warnings = warnings.map(|warning| format!(r#"<p role="note"><b>Warning: {}</b></p>"#, escape(&warning)));
    let title = "Runs side by side";
    let main = format!(
        r#"<header><h1>{title}</h1><p class="soft">Runs that differ in the seed only are one arm, whose games are pooled.</p>{}</header>
{}<section aria-labelledby="numbers"><h2 id="numbers">Last models</h2>{}</section>"#,
        warnings.collect::<String>(),
        charts.collect::<String>(),
        tables.collect::<String>(),
    );
    page(title, &main)
}

/// A chart for each seat.
fn of_seats(arms: &[Arm], measure: Measure, words: Words, cost: Cost) -> Vec<String> {
    let seats = labels(arms).into_iter().flat_map(|labels| labels.seats);
    seats.map(|seat| chart(arms, Question { measure, words, seat }, cost)).collect()
}

/// The change from IM by the cost of models, a line for each arm with its 95% band.
fn chart(arms: &[Arm], question: Question, cost: Cost) -> String {
    let styled = || arms.iter().zip(STYLES.into_iter().cycle());
    let curves: Vec<Vec<(f64, f64, f64, f64)>> = arms.iter().map(|arm| curve(arm, question, cost)).collect();
    let points = || curves.iter().flatten();
    let right = points().map(|(x, ..)| *x).fold(1.0, f64::max);
    let (low, high) = points().fold((0.0, 0.0), |(low, high): (f64, f64), (_, _, l, h)| (low.min(*l), high.max(*h)));
    let of = match cost {
        Cost::Games => "games after imitation",
        Cost::Seconds => "seconds of play and training after imitation",
    };
    let title = match question.measure {
        Measure::WinRate => format!("Win rate as {}", question.seat),
        Measure::Score => format!("Score as {}", question.seat),
    };
    let y = Axis::round(low, high, 5, "points more than IM");
    let mut chart = Chart::new(&title, "A line for each arm with its 95% band.", Axis::until(right, 4, of), y);
    chart.rule(0.0);
    for (curve, (_, (colour, _))) in curves.iter().zip(styled()) {
        chart.band(&curve.iter().map(|(x, _, low, high)| (*x, *low, *high)).collect::<Vec<_>>(), colour);
    }
    for (curve, (arm, (colour, dash))) in curves.iter().zip(styled()) {
        chart.line(&curve.iter().map(|(x, y, ..)| (*x, *y)).collect::<Vec<_>>(), colour, dash);
        let hint = |(x, y, low, high): &(f64, f64, f64, f64)| {
            let [points, low, high] = [*y, *low, *high].map(|points| signed(points, 1));
            (*x, *y, format!("{}, {x:.0}: {points} [{low}, {high}]", arm.name))
        };
        chart.marks(&curve.iter().map(hint).collect::<Vec<_>>(), colour);
    }
    let legend: Vec<_> = styled().map(|(arm, (colour, dash))| (colour, line_key(dash), arm.name.as_str())).collect();
    figure(&title, &legend, &chart.finish(), question.measure.title())
}

/// Cost, change and interval of IM and of each evaluated model.
fn curve(arm: &Arm, question: Question, cost: Cost) -> Vec<(f64, f64, f64, f64)> {
    let epochs = arm.reports.first().into_iter().flat_map(|report| &report.first.matches).map(|game| game.epoch);
    let point = |epoch| {
        let change = arm.change(question, Some(epoch))?;
        let costs: Vec<f64> = arm.reports.iter().map(|report| cost.until(report, epoch)).collect();
        Some((costs.iter().sum::<f64>() / costs.len().max(1) as f64, change.points, change.low, change.high))
    };
    std::iter::once((0.0, 0.0, 0.0, 0.0)).chain(epochs.filter_map(point)).collect()
}

impl Cost {
    /// What the model of an epoch and those before it cost.
    fn until(self, report: &Report, epoch: usize) -> f64 {
        let is_before = |name: &str, prefix: &str| {
            name.strip_prefix(prefix).and_then(|number| number.parse().ok()).is_some_and(|of: usize| of <= epoch)
        };
        match self {
            Self::Games => {
                let rounds = report.first.rounds.iter().filter(|round| is_before(&round.name, "SPAG-"));
                rounds.filter_map(|round| round.games.as_ref()).map(|games| games.games as f64).sum()
            }
            Self::Seconds => {
                report.stages.iter().filter(|stage| is_before(&stage.stage, "spag-")).map(|stage| stage.total()).sum()
            }
        }
    }
}
