//! The report as one HTML page without scripts, fonts or external links.

use spag_eval::html::{escape, page, table};
use spag_eval::render_section;
use spag_game::Labels;
use spag_selfplay::{MeterTable, arena};

use super::charts;
use super::data::{GameReport, HeldOut, Report, SamplePair, ShownGame};
use super::exact::{exact_chart, exact_table};
use super::rounds::{GAME_TITLE, TRAINING_COLUMNS, TRAINING_TITLE, game_columns, game_rows, training_rows};
use super::text::{
    REFUSAL_TITLE, SOURCE_COLUMNS, SOURCE_TITLE, STAGE_COLUMNS, change, endings_table, has_clues, held_out_title,
    percent, refusal_columns, refusal_rows, source_rows, stage_rows, win_columns, win_rows,
};
use super::updates::{UPDATE_TITLE, update_charts, update_columns, update_rows};

/// The report as a page. Texts of the run are escaped; colours follow the reader's light or dark scheme.
pub fn render_html(report: &Report) -> String {
    let title = format!("SPAG run {}", report.run_dir);
    let several = !report.more_games.is_empty();
    let heading = |game: &GameReport| match several {
        true => format!("<h3>{}</h3>", escape(&game.title())),
        false => String::new(),
    };
    let sections =
        |of: fn(&GameReport) -> String| -> String { report.games().map(|game| heading(game) + &of(game)).collect() };
    let grid = |charts: String| format!(r#"<div class="charts">{charts}</div>"#);
    let losses = charts::losses(report) + &update_charts(report);
    let charts = match several {
        true => report.games().map(|game| heading(game) + &grid(charts_of(game))).collect::<String>() + &grid(losses),
        false => grid(charts_of(&report.first) + &losses),
    };
    let main = format!(
        r#"<header>
<h1>Self-play of {game}</h1>
<p class="soft">Run <code>{run}</code>, seed {seed}, evaluation seed {evaluation_seed}</p>
{notes}{tiles}
</header>
<section aria-labelledby="charts"><h2 id="charts">Charts</h2>{charts}</section>
<section aria-labelledby="numbers"><h2 id="numbers">All numbers</h2>{tables}</section>
{benchmarks}<section aria-labelledby="games"><h2 id="games">Games side by side</h2>{samples}</section>
<section aria-labelledby="run"><h2 id="run">The run</h2>{run_tables}</section>"#,
        game = escape(&report.title()),
        run = escape(&report.run_dir),
        seed = report.seed,
        evaluation_seed = report.evaluation_seed,
        notes = notes(report),
        tiles = report.games().map(|game| heading(game) + &tiles(game)).collect::<String>(),
        tables = sections(tables)
            + &table(TRAINING_TITLE, &TRAINING_COLUMNS, &training_rows(&report.first.rounds))
            + &updates(report),
        benchmarks = benchmarks(report),
        samples = sections(samples),
        run_tables = run_tables(report),
    );
    page(&title, &main)
}

/// The charts of a game.
fn charts_of(report: &GameReport) -> String {
    let mut charts = String::new();
    if report.baseline.games > 0 {
        charts += &charts::win_rates(report);
    }
    if has_clues(report) {
        charts += &charts::clue_truth(report);
    }
    charts += &exact_chart(report);
    charts + &charts::all_endings(report)
}

fn samples(report: &GameReport) -> String {
    report.samples.iter().map(|pair| sample(report.labels(), pair)).collect()
}

/// Why the run stopped, and what looks wrong in it.
fn notes(report: &Report) -> String {
    let stopped = report.stopped.iter().map(|reason| format!("The run stopped: {reason}"));
    let notes = stopped.chain(report.all_warnings().into_iter().map(|warning| format!("Warning: {warning}")));
    notes.map(|note| format!(r#"<p role="note"><b>{}</b></p>"#, escape(&note))).collect()
}

/// The main numbers: the last model against IM.
fn tiles(report: &GameReport) -> String {
    let Some(last) = report.matches.last() else { return String::new() };
    let (name, win) = (&last.name, last.win.to_string());
    let interval = win.split_once(' ').map_or("", |(_, interval)| interval);
    let points = |of| change(of).split(' ').next().unwrap_or_default().to_owned();
    let mut tiles = vec![(
        format!("{} %", percent(last.win.share)),
        format!("of decided games {name} wins against IM {}", interval),
    )];
    let changes = last.change.iter();
    tiles.extend(
        changes.map(|(seat, change)| (points(*change), format!("points won as {seat}, against IM in that seat"))),
    );
    if has_clues(report) {
        tiles.push((
            format!("{} %", percent(last.seats.values()[0].true_clues.share)),
            format!("of {name}'s clues are true; IM: {} %", percent(report.baseline.true_clues.share)),
        ));
    }
    let items: String = tiles
        .iter()
        .map(|(big, small)| format!("<li><b>{}</b><span>{}</span></li>", escape(big), escape(small)))
        .collect();
    format!(r#"<ul class="tiles">{items}</ul>"#)
}

fn tables(report: &GameReport) -> String {
    let (ending_columns, endings) = endings_table(report, |rate| rate.to_string());
    let mut all = String::new();
    if report.baseline.games > 0 {
        let title = "Win rates against IM, % of decided games [95% Wilson interval], and the change against IM playing \
                     itself, in points";
        all += &table(title, &header(&win_columns(report.labels())), &win_rows(&report.baseline, &report.matches));
    }
    if let Some(HeldOut { words, baseline, matches }) = &report.held_out {
        all += &table(&held_out_title(*words), &header(&win_columns(report.labels())), &win_rows(baseline, matches));
    }
    if let Some(ratings) = &report.ratings {
        let row = |player: &arena::Standing| {
            let arena::Elo { points, low, high } = player.elo;
            vec![player.name.clone(), format!("{points:.0} [{low:.0}, {high:.0}]"), player.both.games.to_string()]
        };
        let rows: Vec<_> = ratings.players.iter().map(row).collect();
        all += &table("Elo ratings [95% interval]; a tie is half a win", &["model", "Elo", "games"], &rows);
    }
    let clues = if has_clues(report) { "; true clues, % of clues given" } else { "" };
    let title = format!("How games ended, % of games [95%]{clues}");
    all += &table(&title, &header(&ending_columns), &endings);
    let refused = refusal_rows(report);
    if !refused.is_empty() {
        all += &table(REFUSAL_TITLE, &header(&refusal_columns(report.labels())), &refused);
    }
    if let Some(MeterTable { title, columns, rows }) = exact_table(report) {
        all += &table(title, columns, &rows);
    }
    if !report.imitation.is_empty() {
        all += &table(SOURCE_TITLE, &SOURCE_COLUMNS, &source_rows(report));
    }
    all + &table(GAME_TITLE, &header(&game_columns(report.labels())), &game_rows(report.labels(), &report.rounds))
}

fn updates(report: &Report) -> String {
    match update_rows(report) {
        rows if rows.is_empty() => String::new(),
        rows => table(UPDATE_TITLE, &header(&update_columns(report)), &rows),
    }
}

fn benchmarks(report: &Report) -> String {
    if report.benchmarks.is_empty() {
        return String::new();
    }
    let section = render_section(&report.benchmarks);
    format!(
        r#"<section aria-labelledby="benchmarks"><h2 id="benchmarks">Benchmarks</h2>{section}</section>
"#
    )
}

fn header(columns: &[String]) -> Vec<&str> {
    columns.iter().map(String::as_str).collect()
}

/// The text with its first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

fn sample(labels: &Labels, pair: &SamplePair) -> String {
    // The seed deals games that have no item.
    let about = match pair.item.is_empty() {
        true => String::new(),
        false => format!("<h3>{}: {}</h3>", capitalised(labels.item), escape(&pair.item)),
    };
    format!(
        r#"<article class="pair">{about}<div>{}{}</div></article>"#,
        game(labels, &pair.before),
        game(labels, &pair.after)
    )
}

fn game(labels: &Labels, game: &ShownGame) -> String {
    let said: String = game
        .utterances
        .iter()
        .map(|utterance| {
            let untrue = if utterance.untrue.is_empty() {
                String::new()
            } else {
                format!(r#"<small>untrue: {}</small>"#, escape(&utterance.untrue.join(", ")))
            };
            let content = escape(&utterance.content);
            let seat = utterance.seat;
            format!(r#"<dt>{seat}</dt><dd class="{seat}">{content}{untrue}</dd>"#)
        })
        .collect();
    let [first, second] = game.players.values();
    format!(
        r#"<section class="game"><b>{}</b><dl>{said}</dl><p class="end">{}</p></section>"#,
        labels.pairing(&escape(first), &escape(second)),
        escape(&game.ending)
    )
}

fn run_tables(report: &Report) -> String {
    let pairs = |pairs: &[(String, String)]| -> Vec<Vec<String>> {
        pairs.iter().map(|(a, b)| vec![a.clone(), b.clone()]).collect()
    };
    table("Seconds per stage", &STAGE_COLUMNS, &stage_rows(report))
        + &table("Settings", &["setting", "value"], &pairs(&report.settings))
        + &table("Files in the run folder", &["path", "what it is"], &pairs(&report.files))
}
