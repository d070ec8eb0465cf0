//! Measures against perfect play: their table and their chart.

use spag_run::document::{Chart, Series, Table};
use spag_selfplay::{GameMeter, KuhnMeter, MeterTable, SolvedMeter};

use super::data::{GameReport, Report};

/// The table of the measures of a report, if there are some.
pub(super) fn exact_table(report: &GameReport) -> Option<Table> {
    let MeterTable { title, columns, rows } =
        MeterTable::of(report.exact.iter().map(|play| (play.model.as_str(), &play.measure)))?;
    Some(Table::new(title, columns.iter().copied(), rows))
}

/// The measure by which runs are compared.
pub(super) struct Skill {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) decimals: usize,
}

impl Skill {
    /// The measure of a report's game, if it has one.
    pub(super) fn of(report: &GameReport) -> Option<Self> {
        Some(match report.exact.first()?.measure {
            GameMeter::Kuhn(_) => Self { name: "Exploitability", unit: "chips a round", decimals: 3 },
            GameMeter::Solved(_) => Self { name: "Best moves", unit: "%", decimals: 1 },
        })
    }

    /// Mean, smallest and largest value over reports of the model at `place`: 0 is IM, then the evaluated models. `None` if no report
    /// has it.
    pub(super) fn over(reports: &[Report], place: usize) -> Option<[f64; 3]> {
        let value = |meter: &GameMeter| match meter {
            GameMeter::Kuhn(kuhn) => kuhn.exploitability,
            GameMeter::Solved(solved) => 100.0 * solved.optimal,
        };
        let measured = reports.iter().filter_map(|report| report.first.exact.get(place));
        let values: Vec<f64> = measured.map(|play| value(&play.measure)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let end = |end: fn(f64, f64) -> f64| values.iter().copied().reduce(end);
        Some([mean, end(f64::min)?, end(f64::max)?])
    }
}

/// The chart of the measures by model; none without them.
pub(super) fn exact_chart(report: &GameReport) -> Option<Chart> {
    let line = |name: &str, of: &dyn Fn(&GameMeter) -> Option<f64>| {
        let values = report.exact.iter().enumerate();
        Series::new(name, values.filter_map(|(at, play)| Some([at as f64, of(&play.measure)?])))
    };
    let kuhn = |name, of: fn(&KuhnMeter) -> Option<f64>| {
        line(name, &|measure| if let GameMeter::Kuhn(kuhn) = measure { of(kuhn) } else { None })
    };
    let solved = |name, of: fn(&SolvedMeter) -> f64| {
        line(name, &|measure| if let GameMeter::Solved(solved) = measure { Some(100.0 * of(solved)) } else { None })
    };
    let (title, up, series, note) = match report.exact.first()?.measure {
        GameMeter::Kuhn(_) => (
            "Exploitability by model",
            "chips a round; reward",
            vec![
                kuhn("exploitability", |kuhn| Some(kuhn.exploitability)),
                kuhn("opponent's match", |kuhn| kuhn.match_value),
            ],
            "What a perfect opponent wins, the mean of both seats: in chips a round, and as its mean reward in a match, which \
             is what play is trained on. 0 is an equilibrium.",
        ),
        GameMeter::Solved(_) => (
            "Best moves by model",
            "%",
            vec![
                solved("best moves", |solved| solved.optimal),
                solved("no legal action", |solved| solved.invalid),
                Series { is_reference: true, ..solved("by chance", |solved| solved.optimal_by_chance) },
            ],
            "Mean probabilities in positions in which some move is a mistake, the same positions for all models: of moves \
             that keep the value, among legal ones; of any legal move doing so; and of answers that are no legal action.",
        ),
    };
    Some(Chart {
        title: title.to_owned(),
        note: note.to_owned(),
        across: "model".to_owned(),
        up: up.to_owned(),
        names: report.exact.iter().map(|play| play.model.clone()).collect(),
        includes: vec![0.0],
        series,
        ..Chart::default()
    })
}
