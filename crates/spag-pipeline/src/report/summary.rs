//! What a finished run says on a terminal: its result, what looks wrong, and where the rest is.

use std::path::Path;

use spag_io::escape;

use super::data::{GameReport, Report};
use super::tables::{change, conclusions, percent};

/// Games whose result is told, and warnings.
const SHOWN: usize = 3;

/// The result of a run in about ten lines: the last model against IM in each game, warnings, and what can be looked at next.
pub fn render_summary(report: &Report) -> String {
    let mut lines = Vec::new();
    let seconds: f64 = report.stages.iter().map(|stage| stage.total()).sum::<f64>() + 0.0;
    lines.push(match &report.stopped {
        Some(reason) => format!("The run stopped: {}", escape(reason)),
        None => format!("The run is finished: {}, {seconds:.0} seconds of work", escape(&report.title())),
    });
    let warnings = report.all_warnings();
    lines.extend(warnings.iter().take(SHOWN).map(|warning| format!("Warning: {}", escape(warning))));
    if warnings.len() > SHOWN {
        lines.push(format!("and {} more warnings, in the report", warnings.len() - SHOWN));
    }
    lines.extend(report.games().take(SHOWN).filter_map(|game| result(report, game)));
    if report.more_games.len() >= SHOWN {
        lines.push(format!("and {} more games, in the report", report.more_games.len() + 1 - SHOWN));
    }
    lines.extend(report.controls.iter().flat_map(conclusions));
    let path = |name: &str| escape(&Path::new(&report.run_dir).join(name).display().to_string()).into_owned();
    let folder = escape(&report.run_dir).into_owned();
    lines.push(format!(
        "Report: {} (text), {} (with charts), {} (data)",
        path("report.txt"),
        path("report.html"),
        path("report.json")
    ));
    let last = report.games().find_map(|game| Some((game, game.matches.last()?)));
    let model = last.map_or_else(|| "im".to_owned(), |(_, last)| last.name.to_lowercase());
    lines.push("Next:".to_owned());
    let served = path(&format!("{model}/model"));
    lines.push(format!("  spag serve {served} --run {folder}    play against the model, browse the run's games"));
    if let Some((game, _)) = last {
        let of_game = game.folder.as_ref().map(|folder| format!("{folder}/")).unwrap_or_default();
        lines.push(format!("  spag show {}    read games", path(&format!("eval/{of_game}{model}-vs-im.jsonl"))));
    }
    lines.push(format!("  spag compare {folder} OTHER_RUN    compare runs"));
    lines.join("\n")
}

/// The last model of a game against IM, in a line.
fn result(report: &Report, game: &GameReport) -> Option<String> {
    let last = game.matches.last()?;
    let of_game = if report.more_games.is_empty() { String::new() } else { format!("{}: ", escape(&game.title())) };
    let seats = last.change.iter().map(|(seat, of)| {
        let points = change(*of);
        let points = points.split(' ').next().unwrap_or_default();
        let ties = last.shown_ties().find(|(of, _)| *of == seat);
        let ties = ties.map(|(_, ties)| format!(", {}% ties", percent(ties.share))).unwrap_or_default();
        format!("{}% as {seat} ({points} points{ties})", percent(last.win_as(seat).share))
    });
    let seats: Vec<String> = seats.collect();
    Some(format!(
        "{of_game}{} wins {}% of its decided games against IM: {}",
        last.name,
        percent(last.win.share),
        seats.join(", ")
    ))
}
