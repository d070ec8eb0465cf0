//! The report as one HTML page without scripts, fonts or external links.

use super::charts;
use super::data::{Report, SamplePair, ShownGame};
use super::html::{escape, table};
use super::text::{ENDING_COLUMNS, STAGE_COLUMNS, change, ending_row, pairings, percent, stage_rows, win_rows};

const STYLE: &str = include_str!("page.css");

/// The report as a page. Texts of the run are escaped; colours follow the reader's light or dark scheme.
pub fn render_html(report: &Report) -> String {
    let title = format!("SPAG run {}", report.run_dir);
    let charts =
        [charts::win_rates(report), charts::clue_truth(report), charts::all_endings(report), charts::losses(report)]
            .concat();
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>Self-play of Adversarial Taboo</h1>
<p class="soft">Run <code>{run}</code>, seed {seed}, evaluation seed {evaluation_seed}</p>
{tiles}
</header>
<section aria-labelledby="charts"><h2 id="charts">Charts</h2><div class="charts">{charts}</div></section>
<section aria-labelledby="numbers"><h2 id="numbers">All numbers</h2>{tables}</section>
<section aria-labelledby="games"><h2 id="games">Games side by side</h2>{samples}</section>
<section aria-labelledby="run"><h2 id="run">The run</h2>{run_tables}</section>
</main>
</body>
</html>
"#,
        title = escape(&title),
        run = escape(&report.run_dir),
        seed = report.seed,
        evaluation_seed = report.evaluation_seed,
        tiles = tiles(report),
        tables = tables(report),
        samples = report.samples.iter().map(sample).collect::<String>(),
        run_tables = run_tables(report),
    )
}

/// The main numbers: the last model against IM.
fn tiles(report: &Report) -> String {
    let Some(last) = report.matches.last() else { return String::new() };
    let (name, win) = (&last.name, last.win.to_string());
    let interval = win.split_once(' ').map_or("", |(_, interval)| interval);
    let points = |of| change(of).split(' ').next().unwrap_or_default().to_owned();
    let tiles = [
        (format!("{} %", percent(last.win.share)), format!("of decided games {name} wins against IM {}", interval)),
        (points(last.attacker_change), "points won as attacker, against IM in that seat".to_owned()),
        (points(last.defender_change), "points won as defender, against IM in that seat".to_owned()),
        (
            format!("{} %", percent(last.as_attacker.true_clues.share)),
            format!("of {name}'s clues are true; IM: {} %", percent(report.baseline.true_clues.share)),
        ),
    ];
    let items: String = tiles
        .iter()
        .map(|(big, small)| format!("<li><b>{}</b><span>{}</span></li>", escape(big), escape(small)))
        .collect();
    format!(r#"<ul class="tiles">{items}</ul>"#)
}

fn tables(report: &Report) -> String {
    let endings: Vec<Vec<String>> =
        pairings(report).into_iter().map(|(name, play)| ending_row(name, play, |rate| rate.to_string())).collect();
    table(
        "Win rates against IM, % of decided games [95% Wilson interval], and the change against IM playing itself, in points",
        &["model", "both seats", "as attacker", "against IM–IM", "as defender", "against IM–IM"],
        &win_rows(report),
    ) + &table("How games ended, % of games [95%]; true clues, % of clues given", &ENDING_COLUMNS, &endings)
}

fn sample(pair: &SamplePair) -> String {
    format!(
        r#"<article class="pair"><h3>Target word: {}</h3><div>{}{}</div></article>"#,
        escape(&pair.target_word),
        game(&pair.before),
        game(&pair.after)
    )
}

fn game(game: &ShownGame) -> String {
    let said: String = game
        .utterances
        .iter()
        .map(|utterance| {
            let class = if utterance.role == "defender" { "defender" } else { "attacker" };
            let untrue = if utterance.untrue.is_empty() {
                String::new()
            } else {
                format!(r#"<small>untrue: {}</small>"#, escape(&utterance.untrue.join(", ")))
            };
            let content = escape(&utterance.content);
            format!(r#"<dt>{}</dt><dd class="{class}">{content}{untrue}</dd>"#, escape(&utterance.role))
        })
        .collect();
    format!(
        r#"<section class="game"><b>{} attacks, {} defends</b><dl>{said}</dl><p class="end">{}</p></section>"#,
        escape(&game.attacker),
        escape(&game.defender),
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
