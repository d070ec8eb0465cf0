//! Arms as a document: curves over games and over seconds, and the tables.

use spag_run::document::{Chart, Document, Part, Section, Series};

use super::changes::{Measure, Question, Words};
use super::text::{arms_warnings, controls_table, tables};
use super::{Arm, labels, skill};
use crate::report::data::Report;
use crate::report::exact::Skill;
use crate::report::tables::conclusions;

/// What models are placed by.
#[derive(Clone, Copy)]
enum Cost {
    Games,
    Seconds,
}

/// Arms as a document: how each model's scores and win rates differ from those of IM, by the games and the seconds that were spent
/// on it after imitation.
pub fn arms_document(arms: &[Arm]) -> Document {
    let mut sections: Vec<Section> = Words::ALL
        .into_iter()
        .filter(|words| words.are_in(arms))
        .map(|words| {
            let all = [(Measure::Score, Cost::Games), (Measure::WinRate, Cost::Games), (Measure::Score, Cost::Seconds)];
            let charts = all.into_iter().flat_map(|(measure, cost)| of_seats(arms, measure, words, cost)).collect();
            let heading = match Words::HeldOut.are_in(arms) {
                true => format!("On {}", words.title()),
                false => "By cost".to_owned(),
            };
            Section { heading, parts: vec![Part::Charts(charts)] }
        })
        .collect();
    sections.extend(Section::of(
        "Against perfect play",
        against_perfect_play(arms).map(|chart| Part::Charts(vec![chart])).into_iter().collect(),
    ));
    sections.extend(Section::of("Last models", tables(arms).into_iter().map(Part::Table).collect()));
    let controls = arms.iter().filter_map(|arm| Some((arm, arm.controls()?)));
    let parts = controls.flat_map(|(arm, controls)| {
        let said = conclusions(&controls).into_iter().map(Part::Text);
        std::iter::once(Part::Table(controls_table(arm, &controls))).chain(said).collect::<Vec<_>>()
    });
    sections.extend(Section::of("Controls", parts.collect()));
    Document {
        title: "Runs side by side".to_owned(),
        about: "Runs that differ in the seed only are one arm, whose games are pooled.".to_owned(),
        notes: arms_warnings(arms).into_iter().map(|warning| format!("Warning: {warning}")).collect(),
        sections,
        without_script: "The command that wrote it prints the same tables.",
    }
}

/// A chart for each seat.
fn of_seats(arms: &[Arm], measure: Measure, words: Words, cost: Cost) -> Vec<Chart> {
    let seats = labels(arms).into_iter().flat_map(|labels| labels.seats);
    seats.map(|seat| chart(arms, Question { measure, words, seat }, cost)).collect()
}

/// The change from IM by the cost of models, a line for each arm with its 95% intervals.
fn chart(arms: &[Arm], question: Question, cost: Cost) -> Chart {
    let title = match question.measure {
        Measure::WinRate => format!("Win rate as {}", question.seat),
        Measure::Score => format!("Score as {}", question.seat),
    };
    Chart {
        title,
        note: format!("{}. Bands are 95% intervals.", question.measure.title()),
        across: cost.title().to_owned(),
        up: "points more than IM".to_owned(),
        rule: Some(0.0),
        series: arms.iter().map(|arm| Series::with_intervals(&arm.name, curve(arm, question, cost))).collect(),
        ..Chart::default()
    }
}

/// Cost and change of IM and of each evaluated model, each with its interval.
fn curve(arm: &Arm, question: Question, cost: Cost) -> impl Iterator<Item = ([f64; 2], [f64; 2])> {
    let point = move |epoch| {
        let change = arm.change(question, Some(epoch))?;
        Some(([cost.mean(arm, epoch), change.points], [change.low, change.high]))
    };
    std::iter::once(([0.0; 2], [0.0; 2])).chain(arm.epochs().filter_map(point))
}

/// Models against perfect play: a line for each arm, with the range of its seeds. `None` if the game has no such measure.
fn against_perfect_play(arms: &[Arm]) -> Option<Chart> {
    let skill = skill(arms)?;
    let point = |arm: &Arm, place, epoch| {
        let [mean, smallest, largest] = Skill::over(&arm.reports, place)?;
        Some(([Cost::Games.mean(arm, epoch), mean], [smallest, largest]))
    };
    let line = |arm: &Arm| {
        let epochs = std::iter::once(0).chain(arm.epochs()).enumerate();
        Series::with_intervals(&arm.name, epochs.filter_map(|(place, epoch)| point(arm, place, epoch)))
    };
    Some(Chart {
        title: format!("{} by games", skill.name),
        note: "Means over seeds. Bands are their least and largest values.".to_owned(),
        across: Cost::Games.title().to_owned(),
        up: skill.unit.to_owned(),
        includes: vec![0.0],
        series: arms.iter().map(line).collect(),
        ..Chart::default()
    })
}

impl Cost {
    fn title(self) -> &'static str {
        match self {
            Self::Games => "games after imitation",
            Self::Seconds => "seconds of play and training after imitation",
        }
    }

    /// The mean over the seeds of an arm.
    fn mean(self, arm: &Arm, epoch: usize) -> f64 {
        arm.reports.iter().map(|report| self.until(report, epoch)).sum::<f64>() / arm.reports.len().max(1) as f64
    }

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
