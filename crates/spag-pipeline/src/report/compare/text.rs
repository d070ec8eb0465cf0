//! Arms as tables.

use spag_eval::Comparison;
use spag_game::{Labels, Seat};
use spag_run::document::Table;
use spag_selfplay::signed;

use super::changes::{Measure, PairedSeeds, Question, Words};
use super::{Arm, labels, skill};
use crate::report::data::Report;
use crate::report::exact::Skill;
use crate::report::tables::conclusions;
use crate::report::text::text_of;

/// Tables of arms: how the last model's win rates and scores in both seats differ from those of IM, pooled over seeds, with 95%
/// intervals, and how arms differ from the first one, seed by seed.
pub fn render_arms(arms: &[Arm]) -> String {
    let tables = tables(arms).into_iter().map(|table| format!("{}\n", text_of(&table)));
    let controls = arms.iter().filter_map(|arm| Some((arm, arm.controls()?)));
    let controls = controls.map(|(arm, controls)| {
        let said: String = conclusions(&controls).iter().map(|line| format!("\n  {line}\n")).collect();
        format!("{}{said}\n", text_of(&controls_table(arm, &controls)))
    });
    tables.chain(controls).collect()
}

/// The last model of an arm against the base model and the control arms.
pub(super) fn controls_table(arm: &Arm, controls: &Comparison) -> Table {
    let table = controls.table();
    Table { title: format!("{}: {}", arm.name, table.title), ..table }
}

/// What qualifies the win rates of arms, a sentence each.
pub fn arms_warnings(arms: &[Arm]) -> Vec<String> {
    let of_arm = |arm: &Arm| {
        let of_run = |report: &Report| {
            let named = |warning| format!("{}, seed {}: {warning}", arm.name, report.seed);
            report.few_decided().into_iter().map(named).collect::<Vec<_>>()
        };
        arm.reports.iter().flat_map(of_run).collect::<Vec<_>>()
    };
    arms.iter().flat_map(of_arm).collect()
}

/// All tables.
pub(super) fn tables(arms: &[Arm]) -> Vec<Table> {
    let Some(labels) = labels(arms) else { return Vec::new() };
    let words = Words::ALL.into_iter().filter(|words| words.are_in(arms));
    let changes = words.flat_map(|words| Measure::ALL.map(|measure| changes(arms, labels, measure, words)));
    changes.chain(skills(arms)).chain(benchmarks(arms)).collect()
}

/// The last models against perfect play; `None` if the game has no such measure.
fn skills(arms: &[Arm]) -> Option<Table> {
    let skill = skill(arms)?;
    let row = |arm: &Arm| {
        let last = arm.reports.first()?.first.exact.len().checked_sub(1)?;
        let values = Skill::over(&arm.reports, last)?.map(|value| format!("{value:.0$}", skill.decimals));
        Some([arm.name.clone(), arm.reports.len().to_string()].into_iter().chain(values).collect())
    };
    let title = format!("{} of the last model, {}, over seeds", skill.name, skill.unit);
    Table::new(title, ["arm", "seeds", "mean", "least", "largest"], arms.iter().filter_map(row).collect()).filled()
}

fn changes(arms: &[Arm], labels: &Labels, measure: Measure, words: Words) -> Table {
    let mut columns = vec!["arm".to_owned(), "seeds".to_owned()];
    columns.extend(labels.seats.map(|seat| format!("as {seat}, points")));
    columns.extend(labels.seats.map(|seat| format!("{seat}: from the first arm (p)")));
    let of = |seat: Seat| Question { measure, words, seat };
    let row = |(at, arm): (usize, &Arm)| {
        let change = |seat| arm.change(of(seat), None).map_or_else(|| "–".to_owned(), |change| change.to_string());
        let paired = |seat| match arms.first().filter(|_| at > 0).and_then(|one| one.paired(arm, of(seat))) {
            Some(PairedSeeds { mean, p }) => format!("{} ({p:.3})", signed(mean, 1)),
            None => "–".to_owned(),
        };
        let mut row = vec![arm.name.clone(), arm.reports.len().to_string()];
        row.extend(labels.seats.map(change));
        row.extend(labels.seats.map(paired));
        row
    };
    // Without words that were held out, all games are of one kind, and some games have no words.
    let on = if Words::HeldOut.are_in(arms) { format!(", on {}", words.title()) } else { String::new() };
    let title = format!("{} of the last model against IM, minus those of IM against itself{on}", measure.title());
    Table::new(title, columns, arms.iter().enumerate().map(row).collect())
}

/// The last model's mean score over the tasks of the benchmarks, minus the base model's, averaged over seeds.
fn benchmarks(arms: &[Arm]) -> Option<Table> {
    let mean = |scores: &spag_eval::ModelScores| {
        let scores: Vec<f64> = scores
            .tasks
            .iter()
            .filter(|task| task.group.is_none())
            .filter_map(|task| Some(task.main()?.value.value))
            .collect();
        scores.iter().sum::<f64>() / scores.len().max(1) as f64
    };
    let row = |arm: &Arm| {
        let scored =
            arm.reports.iter().filter_map(|report| Some((report.benchmarks.first()?, report.benchmarks.last()?)));
        let changes: Vec<f64> = scored.map(|(base, last)| 100.0 * (mean(last) - mean(base))).collect();
        let average = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
        (!changes.is_empty()).then(|| vec![arm.name.clone(), changes.len().to_string(), signed(average, 1)])
    };
    let title = "Benchmarks: last model minus base model, mean over tasks";
    Table::new(title, ["arm", "seeds", "points"], arms.iter().filter_map(row).collect()).filled()
}
