//! The report as plain text, for the terminal and `report.txt`.

use spag_selfplay::Rate;

use super::data::{Report, SamplePair, ShownGame, ShownUtterance};
use super::numbers::{change, percent, rate, seconds};
use crate::play_stats::PlayStats;

/// The whole report as plain text: win rates, how games ended, a few games, seconds, and where everything lies.
pub fn render_text(report: &Report) -> String {
    let mut out = String::new();
    win_rates(report, &mut out);
    endings(report, &mut out);
    samples(&report.samples, &mut out);
    times(report, &mut out);
    files(report, &mut out);
    out
}

fn win_rates(report: &Report, out: &mut String) {
    out.push_str(
        "Win rates against IM, % of decided games [95% Wilson interval]; a broken rule is the attacker's loss\n\n",
    );
    let mut rows = vec![cells(["model", "both seats", "as attacker", "against IM-IM", "as defender", "against IM-IM"])];
    rows.push(vec![
        "IM itself".to_owned(),
        "–".to_owned(),
        rate(report.baseline.attacker_win),
        "–".to_owned(),
        rate(report.baseline.defender_win),
        "–".to_owned(),
    ]);
    for game in &report.matches {
        rows.push(vec![
            game.name.clone(),
            rate(game.win),
            rate(game.as_attacker.attacker_win),
            change(game.attacker_change),
            rate(game.as_defender.defender_win),
            change(game.defender_change),
        ]);
    }
    table(&rows, out);
}

fn endings(report: &Report, out: &mut String) {
    out.push_str("\nHow games ended, % of games; turns up to the end; true clues, % of the attackers' clues\n\n");
    let mut rows = vec![cells(ENDING_COLUMNS)];
    rows.extend(pairings(report).into_iter().map(|(name, play)| ending_row(name, play, |rate| percent(rate.share))));
    table(&rows, out);
    out.push_str(
        "\n  The rules do not forbid untrue clues: where their share grows, part of the attacker's gain is lying.\n",
    );
}

/// Heads of the table of how games ended.
pub(super) const ENDING_COLUMNS: [&str; 9] = [
    "attacker – defender",
    "games",
    "right guess",
    "wrong guess",
    "said unknowingly",
    "broken rule",
    "tie",
    "turns",
    "true clues",
];

/// A row under [`ENDING_COLUMNS`]; `show` writes a share.
pub(super) fn ending_row(name: String, play: &PlayStats, show: impl Fn(Rate) -> String) -> Vec<String> {
    let shares = [play.right_guess, play.wrong_guess, play.said_unknowingly, play.broken_rule, play.tie];
    let mut row = vec![name, play.games.to_string()];
    row.extend(shares.map(&show));
    row.extend([format!("{:.2}", play.mean_turns), show(play.true_clues)]);
    row
}

/// Every set of games of the report with its players' names, evaluation first.
pub(super) fn pairings(report: &Report) -> Vec<(String, &PlayStats)> {
    let mut all = vec![("IM – IM".to_owned(), &report.baseline)];
    for game in &report.matches {
        all.push((format!("{} – IM", game.name), &game.as_attacker));
        all.push((format!("IM – {}", game.name), &game.as_defender));
    }
    all.extend(report.training_games.iter().map(|named| (format!("{} self-play", named.name), &named.play)));
    all
}

fn samples(samples: &[SamplePair], out: &mut String) {
    if samples.is_empty() {
        return;
    }
    out.push_str("\nSample games\n");
    for pair in samples {
        out.push_str(&format!("\n  target word: {}\n", pair.target_word));
        game(&pair.before, out);
        game(&pair.after, out);
    }
}

fn game(game: &ShownGame, out: &mut String) {
    out.push_str(&format!("    {} attacks, {} defends\n", game.attacker, game.defender));
    for ShownUtterance { role, content, untrue } in &game.utterances {
        let untrue = if untrue.is_empty() { String::new() } else { format!("   (untrue: {})", untrue.join(", ")) };
        out.push_str(&format!("      {:<9} {content}{untrue}\n", format!("{role}:")));
    }
    out.push_str(&format!("      → {}\n", game.ending));
}

fn times(report: &Report, out: &mut String) {
    out.push_str("\nSeconds per stage\n\n");
    let mut rows = vec![cells(["stage", "seconds", "of which"])];
    for stage in &report.stages {
        rows.push(vec![stage.stage.clone(), seconds(stage.total()), stage.describe()]);
    }
    let total = report.stages.iter().map(|stage| stage.total()).sum();
    rows.push(vec!["together".to_owned(), seconds(total), String::new()]);
    table(&rows, out);
}

fn files(report: &Report, out: &mut String) {
    out.push_str(&format!("\nEverything lies in {}\n\n", report.run_dir));
    let rows: Vec<Vec<String>> = report.files.iter().map(|(path, what)| vec![path.clone(), what.clone()]).collect();
    table(&rows, out);
}

fn cells<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Columns as wide as their widest cell, two spaces apart, all flush left.
fn table(rows: &[Vec<String>], out: &mut String) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in rows {
        let line: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.push_str(&format!("  {}\n", line.join("  ").trim_end()));
    }
}
