//! Measures against perfect play: their table and their chart.

use spag_eval::html::figure;
use spag_selfplay::{GameMeter, MeterTable};

use super::data::GameReport;
use super::svg::{Axis, Chart};

/// The table of the measures of a report, if there are some.
pub(super) fn exact_table(report: &GameReport) -> Option<MeterTable> {
    MeterTable::of(report.exact.iter().map(|play| (play.model.as_str(), &play.measure)))
}

/// A line of the chart.
struct Line {
    name: &'static str,
    colour: &'static str,
    dash: &'static str,
    of: fn(&GameMeter) -> Option<f64>,
}

const EXPLOITABILITY: Line = Line {
    name: "exploitability",
    colour: "blue",
    dash: "",
    of: |measure| match measure {
        GameMeter::Kuhn(kuhn) => Some(kuhn.exploitability),
        GameMeter::Solved(_) => None,
    },
};
const MATCH: Line = Line {
    name: "opponent's match",
    colour: "green",
    dash: "7 4",
    of: |measure| match measure {
        GameMeter::Kuhn(kuhn) => kuhn.match_value,
        GameMeter::Solved(_) => None,
    },
};
const BEST_MOVES: Line = Line {
    name: "best moves",
    colour: "blue",
    dash: "",
    of: |measure| match measure {
        GameMeter::Kuhn(_) => None,
        GameMeter::Solved(solved) => Some(100.0 * solved.optimal),
    },
};
const BY_CHANCE: Line = Line {
    name: "by chance",
    colour: "ink",
    dash: "2 4",
    of: |measure| match measure {
        GameMeter::Kuhn(_) => None,
        GameMeter::Solved(solved) => Some(100.0 * solved.optimal_by_chance),
    },
};
const NO_LEGAL_ACTION: Line =
    Line { name: "no legal action", colour: "orange", dash: "7 4", of: |measure| Some(100.0 * measure.invalid()) };

/// The chart of the measures by model; none without them.
pub(super) fn exact_chart(report: &GameReport) -> String {
    match report.exact.first().map(|play| &play.measure) {
        None => String::new(),
        Some(GameMeter::Kuhn(_)) => chart(
            report,
            "Exploitability by model",
            "chips a round; reward",
            &[EXPLOITABILITY, MATCH],
            "What a perfect opponent wins, the mean of both seats: in chips a round, and as its mean reward in a match, which \
             is what play is trained on. 0 is an equilibrium.",
        ),
        Some(GameMeter::Solved(_)) => chart(
            report,
            "Best moves by model",
            "%",
            &[BEST_MOVES, BY_CHANCE, NO_LEGAL_ACTION],
            "Mean probabilities in positions in which some move is a mistake, the same positions for all models: of moves \
             that keep the value, among legal ones; of any legal move doing so; and of answers that are no legal action.",
        ),
    }
}

fn chart(report: &GameReport, title: &str, unit: &str, lines: &[Line], note: &str) -> String {
    let last = report.exact.len().saturating_sub(1).max(1) as f64;
    let ticks = report.exact.iter().enumerate().map(|(at, play)| (at as f64, play.model.clone())).collect();
    let x = Axis { from: -0.15, to: last + 0.15, label: "model".to_owned(), ticks };
    let points = |line: &Line| -> Vec<(f64, f64, String)> {
        let values =
            report.exact.iter().enumerate().filter_map(|(at, play)| Some((at, play, (line.of)(&play.measure)?)));
        let finite = values.filter(|(_, _, value)| value.is_finite());
        finite.map(|(at, play, y)| (at as f64, y, format!("{}, {}: {y:.4}", play.model, line.name))).collect()
    };
    let most = lines.iter().flat_map(points).map(|(_, y, _)| y).fold(0.0, f64::max);
    let named: Vec<&str> = lines.iter().map(|line| line.name).collect();
    let mut chart =
        Chart::new(title, &format!("Lines by model: {}.", named.join(", ")), x, Axis::round(0.0, most, 5, unit));
    for line in lines {
        let points = points(line);
        chart.line(&points.iter().map(|(x, y, _)| (*x, *y)).collect::<Vec<_>>(), line.colour, line.dash);
        chart.marks(&points, line.colour);
    }
    let legend: Vec<_> =
        lines.iter().map(|line| (line.colour, super::charts::line_key(line.dash), line.name)).collect();
    figure(title, &legend, &chart.finish(), note)
}
