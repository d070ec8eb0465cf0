//! The report as a document, of which `report.html` is made.

use spag_eval::scores_parts;
use spag_game::Labels;
use spag_run::document::{Conversation, Document, Part, Said, Section, ShownGames, Table, Tile};

use super::charts;
use super::data::{GameReport, Report, SamplePair, ShownGame, ShownUtterance};
use super::exact::{exact_chart, exact_table};
use super::tables::{self, capitalised, change, has_clues, percent};
use super::updates::{update_charts, update_table};

/// The report as a document.
pub fn report_document(report: &Report) -> Document {
    let mut charts = of_games(report, |game| charts_of(game).into_iter().collect());
    let curves: Vec<_> = charts::losses(report).chain(update_charts(report)).collect();
    match charts.last_mut() {
        // Those of a run of several games are not of the last one.
        Some(Part::Charts(of_game)) if report.more_games.is_empty() => of_game.extend(curves),
        _ if curves.is_empty() => {}
        _ => charts.push(Part::Charts(curves)),
    }
    let mut numbers = of_games(report, numbers);
    let trainings = tables::trainings(&report.first.rounds);
    numbers.extend(trainings.into_iter().chain(update_table(report)).map(Part::Table));
    let mut benchmarks = if report.benchmarks.is_empty() { Vec::new() } else { scores_parts(&report.benchmarks) };
    if let Some(controls) = &report.controls {
        benchmarks.push(Part::Table(controls.table()));
        benchmarks.extend(tables::conclusions(controls).into_iter().map(Part::Text));
    }
    let run = [tables::times(report), tables::settings(report), tables::files(report)];
    let sections = [
        Section::of("", of_games(report, |game| tiles(game).into_iter().collect())),
        Section::of("Charts", charts),
        Section::of("All numbers", numbers),
        Section::of("Benchmarks", benchmarks),
        Section::of("Games side by side", of_games(report, samples)),
        Section::of("The run", run.map(Part::Table).into()),
    ];
    Document {
        title: format!("Self-play of {}", report.title()),
        about: format!("Run {}, seed {}, evaluation seed {}", report.run_dir, report.seed, report.evaluation_seed),
        notes: report.notes(),
        sections: sections.into_iter().flatten().collect(),
        without_script: "report.txt in its folder has the same numbers.",
    }
}

/// Parts of all games, below the name of each if there are several.
fn of_games(report: &Report, parts: impl Fn(&GameReport) -> Vec<Part>) -> Vec<Part> {
    let of_game = |game: &GameReport| {
        let parts = parts(game);
        let has_heading = !report.more_games.is_empty() && !parts.is_empty();
        has_heading.then(|| Part::Heading(game.title())).into_iter().chain(parts).collect::<Vec<_>>()
    };
    report.games().flat_map(of_game).collect()
}

/// The charts of a game.
fn charts_of(report: &GameReport) -> Option<Part> {
    let charts = charts::win_rates(report).into_iter().chain(charts::clue_truth(report)).chain(exact_chart(report));
    let charts: Vec<_> = charts.chain(charts::all_endings(report)).collect();
    (!charts.is_empty()).then_some(Part::Charts(charts))
}

/// The tables of a game.
fn numbers(report: &GameReport) -> Vec<Part> {
    let wins = tables::win_rates(report).into_iter().chain(tables::held_out(report)).chain(tables::ratings(report));
    let played = wins.chain(exact_table(report)).chain([tables::endings(report)]).chain(tables::refusals(report));
    let mut parts: Vec<Part> = played.map(Part::Table).collect();
    parts.extend(tables::clue_note(report).map(Part::Text));
    let rounds = tables::rounds(report.labels(), &report.rounds);
    parts.extend(tables::sources(report).into_iter().chain(Table::filled(rounds)).map(Part::Table));
    parts
}

/// The main numbers: the last model against IM.
fn tiles(report: &GameReport) -> Option<Part> {
    let last = report.matches.last()?;
    let (name, win) = (&last.name, last.win.to_string());
    let interval = win.split_once(' ').map_or("", |(_, interval)| interval);
    let points = |of| change(of).split(' ').next().unwrap_or_default().to_owned();
    let mut tiles = vec![Tile {
        number: format!("{} %", percent(last.win.share)),
        meaning: format!("of decided games {name} wins against IM {interval}"),
    }];
    tiles.extend(last.change.iter().map(|(seat, change)| Tile {
        number: points(*change),
        meaning: format!("points won as {seat}, against IM in that seat"),
    }));
    tiles.extend(last.shown_ties().map(|(seat, ties)| Tile {
        number: format!("{} %", percent(ties.share)),
        meaning: format!("of {name}'s games as {seat} are ties, which win rates leave out"),
    }));
    tiles.extend(has_clues(report).then(|| Tile {
        number: format!("{} %", percent(last.seats.values()[0].true_clues.share)),
        meaning: format!("of {name}'s clues are true; IM: {} %", percent(report.baseline.true_clues.share)),
    }));
    Some(Part::Tiles(tiles))
}

fn samples(report: &GameReport) -> Vec<Part> {
    let labels = report.labels();
    let pair = |SamplePair { item, before, after }: &SamplePair| {
        // The seed deals games that have no item.
        let title = if item.is_empty() { String::new() } else { format!("{}: {item}", capitalised(labels.item)) };
        Part::Games(ShownGames { title, games: vec![conversation(labels, before), conversation(labels, after)] })
    };
    report.samples.iter().map(pair).collect()
}

fn conversation(labels: &Labels, game: &ShownGame) -> Conversation {
    let said = |ShownUtterance { seat, content, untrue }: &ShownUtterance| Said {
        seat: seat.to_string(),
        player: game.players[*seat].clone(),
        text: content.clone(),
        note: if untrue.is_empty() { String::new() } else { format!("untrue: {}", untrue.join(", ")) },
    };
    let [first, second] = game.players.values();
    Conversation {
        players: labels.pairing(first, second),
        said: game.utterances.iter().map(said).collect(),
        ending: game.ending.clone(),
    }
}
