//! The report as plain text, for the terminal and `report.txt`.

use spag_eval::render_table;
use spag_game::Labels;
use spag_io::escape;
use spag_selfplay::{Change, MeterTable, Rate, Refusals, arena, text_table};

use super::data::{
    GameReport, HeldOut, ImitationPart, MatchReport, Report, SamplePair, ShownGame, ShownUtterance, StageSeconds,
};
use super::exact::exact_table;
use super::rounds::{GAME_TITLE, TRAINING_COLUMNS, TRAINING_TITLE, game_columns, game_rows, training_rows};
use super::updates::{UPDATE_TITLE, update_columns, update_rows};
use crate::play_stats::PlayStats;

/// The report as plain text: win rates, endings, sample games, seconds and files.
///
/// What players, word lists and settings contribute is escaped, so that each stays on its line and no terminal obeys it.
pub fn render_text(report: &Report) -> String {
    let mut out = String::new();
    if let Some(reason) = &report.stopped {
        out.push_str(&format!("The run stopped: {}\n\n", escape(reason)));
    }
    for warning in report.all_warnings() {
        out.push_str(&format!("Warning: {}\n\n", escape(&warning)));
    }
    for game in report.games() {
        if !report.more_games.is_empty() {
            out.push_str(&format!("\n── {} ──\n\n", escape(&game.title())));
        }
        numbers(game, &mut out);
    }
    trainings(report, &mut out);
    updates(report, &mut out);
    benchmarks(report, &mut out);
    samples(report, &mut out);
    times(report, &mut out);
    files(report, &mut out);
    out
}

/// The tables of a game.
fn numbers(report: &GameReport, out: &mut String) {
    if report.baseline.games > 0 {
        win_rates(report, out);
        held_out(report, out);
        ratings(report, out);
    }
    exact(report, out);
    endings(report, out);
    rounds(report, out);
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    text_table(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}

fn win_rates(report: &GameReport, out: &mut String) {
    let broken = report.labels().broken_rule;
    out.push_str(&format!("Win rates against IM, % of decided games [95% Wilson interval]; {broken}\n\n"));
    out.push_str(&table(&win_columns(report.labels()), &win_rows(&report.baseline, &report.matches)));
}

fn held_out(report: &GameReport, out: &mut String) {
    if let Some(HeldOut { words, baseline, matches }) = &report.held_out {
        out.push_str(&format!("\n{}\n\n", held_out_title(*words)));
        out.push_str(&table(&win_columns(report.labels()), &win_rows(baseline, matches)));
    }
}

/// The title of the table of win rates on held-out words.
pub(super) fn held_out_title(words: usize) -> String {
    format!("The same on {words} words that no training game was played on")
}

fn ratings(report: &GameReport, out: &mut String) {
    if let Some(table) = &report.ratings {
        out.push('\n');
        out.push_str(&arena::render_text(table));
    }
}

fn rounds(report: &GameReport, out: &mut String) {
    let sources = source_rows(report);
    if !sources.is_empty() {
        out.push_str(&format!("\n{SOURCE_TITLE}\n\n"));
        out.push_str(&text_table(&SOURCE_COLUMNS, &sources));
    }
    out.push_str(&format!("\n{GAME_TITLE}\n\n"));
    out.push_str(&table(&game_columns(report.labels()), &game_rows(report.labels(), &report.rounds)));
}

fn trainings(report: &Report, out: &mut String) {
    let trainings = training_rows(&report.first.rounds);
    if !trainings.is_empty() {
        out.push_str(&format!("\n{TRAINING_TITLE}\n\n"));
        out.push_str(&text_table(&TRAINING_COLUMNS, &trainings));
    }
}

fn updates(report: &Report, out: &mut String) {
    let rows = update_rows(report);
    if !rows.is_empty() {
        out.push_str(&format!("\n{UPDATE_TITLE}\n\n{}", table(&update_columns(report), &rows)));
    }
}

/// The title of the table of sources.
pub(super) const SOURCE_TITLE: &str = "Sources of the imitation; won: games without a broken rule, in % of all";
/// Headers of the table of sources.
pub(super) const SOURCE_COLUMNS: [&str; 6] = ["source", "games", "won", "won, %", "samples", "trained on"];

/// Rows of the table of sources.
pub(super) fn source_rows(report: &GameReport) -> Vec<Vec<String>> {
    let row = |part: &ImitationPart| {
        let share = (part.games > 0).then(|| part.won as f64 / part.games as f64);
        let mut row = vec![escape(&part.source).into_owned(), part.games.to_string(), part.won.to_string()];
        row.extend([percent(share), part.samples.to_string(), part.used.to_string()]);
        row
    };
    report.imitation.iter().map(row).collect()
}

/// Headers of the table of win rates.
pub(super) fn win_columns(labels: &Labels) -> Vec<String> {
    let seats = labels.seats.into_iter().flat_map(|seat| [format!("as {seat}"), "against IM-IM".to_owned()]);
    ["model", "both seats"].map(str::to_owned).into_iter().chain(seats).collect()
}

/// The table of win rates without its header: the baseline, then each match.
pub(super) fn win_rows(baseline: &PlayStats, matches: &[MatchReport]) -> Vec<Vec<String>> {
    let dash = "–".to_owned();
    let mut itself = vec!["IM itself".to_owned(), dash.clone()];
    itself.extend(baseline.win.values().iter().flat_map(|rate| [rate.to_string(), dash.clone()]));
    let row = |game: &MatchReport| {
        let mut row = vec![game.name.clone(), game.win.to_string()];
        row.extend(game.change.iter().flat_map(|(seat, of)| [game.win_as(seat).to_string(), change(*of)]));
        row
    };
    std::iter::once(itself).chain(matches.iter().map(row)).collect()
}

/// A change in points, or a dash.
pub(super) fn change(change: Option<Change>) -> String {
    change.map_or("–".to_owned(), |change| change.to_string())
}

/// As in "61.2", in per cent, or a dash.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share))
}

fn exact(report: &GameReport, out: &mut String) {
    if let Some(MeterTable { title, columns, rows }) = exact_table(report) {
        out.push_str(&format!("\n{title}\n\n{}", text_table(columns, &rows)));
    }
}

fn endings(report: &GameReport, out: &mut String) {
    let clues = match has_clues(report) {
        true => format!("; true clues, % of the {}s' clues", report.labels().seats[0]),
        false => String::new(),
    };
    out.push_str(&format!("\nHow games ended, % of games; turns up to the end{clues}\n\n"));
    let (columns, rows) = endings_table(report, |rate| percent(rate.share));
    out.push_str(&table(&columns, &rows));
    let refused = refusal_rows(report);
    if !refused.is_empty() {
        out.push_str(&format!("\n{REFUSAL_TITLE}\n\n{}", table(&refusal_columns(report.labels()), &refused)));
    }
    if has_clues(report) {
        out.push_str(&format!(
            "\n  The rules do not forbid untrue clues: where their share grows, part of the {}'s gain is lying.\n",
            report.labels().seats[0]
        ));
    }
}

/// Whether the small world tells which clues are true.
pub(super) fn has_clues(report: &GameReport) -> bool {
    pairings(report).iter().any(|(_, play)| play.true_clues.total > 0)
}

/// Headers and rows of the table of endings; `show` formats a rate. Clues have a column in the small world alone.
pub(super) fn endings_table(report: &GameReport, show: impl Fn(Rate) -> String) -> (Vec<String>, Vec<Vec<String>>) {
    let [first, second] = report.labels().seats;
    let has_clues = has_clues(report);
    let mut columns = vec![format!("{first} – {second}"), "games".to_owned()];
    columns.extend(report.endings().iter().map(|ending| ending.title.to_owned()));
    columns.push("turns".to_owned());
    columns.extend(has_clues.then(|| "true clues".to_owned()));
    let row = |(name, play): (String, &PlayStats)| {
        let mut row = vec![escape(&name).into_owned(), play.games.to_string()];
        row.extend(play.endings.iter().map(|(_, rate)| show(*rate)));
        row.push(format!("{:.2}", play.mean_turns));
        row.extend(has_clues.then(|| show(play.true_clues)));
        row
    };
    let rows = pairings(report).into_iter().map(row).collect();
    (columns, rows)
}

/// The title of the table of refused utterances.
pub(super) const REFUSAL_TITLE: &str = "Refused utterances, % of each seat's [95%]; games lost by them";

/// Headers of the table of refused utterances.
pub(super) fn refusal_columns(labels: &Labels) -> Vec<String> {
    let [first, second] = labels.seats;
    let seats = labels.seats.into_iter().flat_map(|seat| [seat.to_string(), "games lost".to_owned()]);
    std::iter::once(format!("{first} – {second}")).chain(seats).collect()
}

/// The table of refused utterances without its header; empty for a game that refuses nothing.
pub(super) fn refusal_rows(report: &GameReport) -> Vec<Vec<String>> {
    let row = |(name, play): (String, &PlayStats)| {
        let seats = play.refusals?;
        let cells = seats.values().iter();
        let cells = cells.flat_map(|Refusals { refused, games_lost }| [refused.to_string(), games_lost.to_string()]);
        Some(std::iter::once(escape(&name).into_owned()).chain(cells).collect())
    };
    pairings(report).into_iter().filter_map(row).collect()
}

/// All sets of games of the report with the names of the players, evaluation first.
pub(super) fn pairings(report: &GameReport) -> Vec<(String, &PlayStats)> {
    let mut all = Vec::new();
    if report.baseline.games > 0 {
        all.push(("IM – IM".to_owned(), &report.baseline));
    }
    for game in &report.matches {
        let [first, second] = game.seats.values();
        all.push((format!("{} – IM", game.name), first));
        all.push((format!("IM – {}", game.name), second));
    }
    all.extend(report.training_games.iter().map(|named| (format!("{} self-play", named.name), &named.play)));
    all
}

fn benchmarks(report: &Report, out: &mut String) {
    if !report.benchmarks.is_empty() {
        out.push_str("\nBenchmarks, % of rows [95% interval]; chance is the share that guessing has\n\n");
        out.push_str(&render_table(&report.benchmarks));
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

/// Who has which seat.
fn who(labels: &Labels, game: &ShownGame) -> String {
    let [first, second] = game.players.values();
    labels.pairing(&escape(first), &escape(second))
}

fn game(labels: &Labels, game: &ShownGame, out: &mut String) {
    out.push_str(&format!("    {}\n", who(labels, game)));
    for ShownUtterance { seat, content, untrue } in &game.utterances {
        let untrue = if untrue.is_empty() { String::new() } else { format!("   (untrue: {})", untrue.join(", ")) };
        let seat = format!("{seat}:");
        out.push_str(&format!("      {seat:<9} {}{}\n", escape(content), escape(&untrue)));
    }
    out.push_str(&format!("      → {}\n", escape(&game.ending)));
}

fn times(report: &Report, out: &mut String) {
    out.push_str("\nSeconds per stage\n\n");
    let mut rows = stage_rows(report);
    // The sum of nothing is −0.
    let total = report.stages.iter().map(|stage| stage.total()).sum::<f64>() + 0.0;
    rows.push(vec!["together".to_owned(), format!("{total:.1}"), String::new()]);
    out.push_str(&text_table(&STAGE_COLUMNS, &rows));
}

/// Headers of the table of stages.
pub(super) const STAGE_COLUMNS: [&str; 3] = ["stage", "seconds", "of which"];

pub(super) fn stage_rows(report: &Report) -> Vec<Vec<String>> {
    let row = |stage: &StageSeconds| vec![stage.stage.clone(), format!("{:.1}", stage.total()), stage.describe()];
    report.stages.iter().map(row).collect()
}

fn files(report: &Report, out: &mut String) {
    out.push_str(&format!("\nAll files are in {}\n\n", escape(&report.run_dir)));
    let rows: Vec<Vec<String>> = report.files.iter().map(|(path, what)| vec![path.clone(), what.clone()]).collect();
    out.push_str(&text_table(&[], &rows));
}
