//! The report as plain text, for the terminal and `report.txt`.

use spag_eval::render_table;
use spag_game::Labels;
use spag_io::escape;
use spag_run::document::Table;
use spag_selfplay::{arena, text_table};

use super::data::{GameReport, MatchReport, Report, SamplePair, ShownGame, ShownUtterance};
use super::exact::exact_table;
use super::tables;
use super::updates::update_table;

/// The report as plain text: win rates, endings, sample games, seconds and files.
///
/// What players, word lists and settings contribute is escaped, so that each stays on its line and no terminal obeys it.
pub fn render_text(report: &Report) -> String {
    let mut out: String = report.notes().iter().map(|note| format!("{}\n\n", escape(note))).collect();
    for game in report.games() {
        if !report.more_games.is_empty() {
            out.push_str(&format!("\n── {} ──\n\n", escape(&game.title())));
        }
        numbers(game, &mut out);
    }
    for table in tables::trainings(&report.first.rounds).into_iter().chain(update_table(report)) {
        out.push_str(&format!("\n{}", text_of(&table)));
    }
    if !report.benchmarks.is_empty() {
        out.push_str("\nBenchmarks, % of rows [95% interval]; chance is the share that guessing has\n\n");
        out.push_str(&render_table(&report.benchmarks));
    }
    if let Some(controls) = &report.controls {
        out.push_str(&format!("\n{}", text_of(&controls.table())));
        tables::conclusions(controls).iter().for_each(|line| out.push_str(&format!("\n  {line}\n")));
    }
    samples(report, &mut out);
    out.push_str(&format!("\n{}", text_of(&tables::times(report))));
    out.push_str(&format!("\nAll files are in {}\n\n", escape(&report.run_dir)));
    out + &text_table::<&str>(&[], &tables::files(report).rows)
}

/// A table below its title.
pub(super) fn text_of(table: &Table) -> String {
    format!("{}\n\n{}", table.title, text_table(&table.columns, &table.rows))
}

/// The tables of a game.
fn numbers(report: &GameReport, out: &mut String) {
    if let Some(wins) = tables::win_rates(report) {
        let ties = report.matches.last().and_then(MatchReport::ties_note);
        ties.into_iter().for_each(|note| out.push_str(&format!("{note}\n\n")));
        out.push_str(&text_of(&wins));
        let held_out = tables::held_out(report).map(|table| text_of(&table));
        let ratings = report.ratings.as_ref().map(arena::render_text);
        held_out.into_iter().chain(ratings).for_each(|text| out.push_str(&format!("\n{text}")));
    }
    let exact = exact_table(report).into_iter();
    for table in exact.chain([tables::endings(report)]).chain(tables::refusals(report)) {
        out.push_str(&format!("\n{}", text_of(&table)));
    }
    tables::clue_note(report).iter().for_each(|note| out.push_str(&format!("\n  {note}\n")));
    let rounds = tables::rounds(report.labels(), &report.rounds);
    for table in tables::sources(report).into_iter().chain([rounds]) {
        out.push_str(&format!("\n{}", text_of(&table)));
    }
}

fn samples(report: &Report, out: &mut String) {
    for report_of_game in report.games().filter(|game| !game.samples.is_empty()) {
        let of_game = match report.more_games.is_empty() {
            true => String::new(),
            false => format!(" of {}", escape(&report_of_game.title())),
        };
        out.push_str(&format!("\nSample games{of_game}\n"));
        let labels = report_of_game.labels();
        for SamplePair { item, before, after } in &report_of_game.samples {
            let about = if item.is_empty() { String::new() } else { format!("  {}: {}\n", labels.item, escape(item)) };
            out.push_str(&format!("\n{about}"));
            game(labels, before, out);
            game(labels, after, out);
        }
    }
}

fn game(labels: &Labels, game: &ShownGame, out: &mut String) {
    let [first, second] = game.players.values();
    out.push_str(&format!("    {}\n", labels.pairing(&escape(first), &escape(second))));
    for ShownUtterance { seat, content, untrue } in &game.utterances {
        let untrue = if untrue.is_empty() { String::new() } else { format!("   (untrue: {})", untrue.join(", ")) };
        let seat = format!("{seat}:");
        out.push_str(&format!("      {seat:<9} {}{}\n", escape(content), escape(&untrue)));
    }
    out.push_str(&format!("      → {}\n", escape(&game.ending)));
}
