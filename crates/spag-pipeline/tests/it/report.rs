//! Renderings of a report.

use crate::common::report::made_up;
use serde_json::{Map, Value};
use spag_game::taboo;
use spag_pipeline::{
    ExactPlay, GameReport, LossCurve, LossPoint, Report, UpdatePoint, render_summary, render_text, report_document,
};
use spag_run::document::{Chart, Document, Part, Table};
use spag_selfplay::{GameMeter, KuhnMeter, SeatResults, SolvedMeter};

fn parts(document: &Document) -> impl Iterator<Item = &Part> {
    document.sections.iter().flat_map(|section| &section.parts)
}

fn charts(report: &Report) -> Vec<Chart> {
    let document = report_document(report);
    let of_part = |part: &Part| if let Part::Charts(charts) = part { charts.clone() } else { Vec::new() };
    parts(&document).flat_map(of_part).collect()
}

fn tables(report: &Report) -> Vec<Table> {
    let document = report_document(report);
    let of_part = |part: &Part| if let Part::Table(table) = part { Some(table.clone()) } else { None };
    parts(&document).filter_map(of_part).collect()
}

#[test]
fn text_has_all_columns_and_no_trailing_blanks() {
    let report = made_up(1);
    let text = render_text(&report);
    for heading in ["both seats", "as attacker", "as defender", "against IM-IM", "right guess", "wrong guess"] {
        assert!(text.contains(heading), "{heading}\n{text}");
    }
    for heading in ["said unknowingly", "broken rule", "tie", "turns", "true clues", "Seconds per stage"] {
        assert!(text.contains(heading), "{heading}\n{text}");
    }
    let last = report.first.matches.last().unwrap();
    let win =
        format!("{:.1} [{:.1}, {:.1}]", 100.0 * last.win.share.unwrap(), 100.0 * last.win.low, 100.0 * last.win.high);
    assert!(text.contains(&win), "{win}\n{text}");
    assert!(text.lines().all(|line| line == line.trim_end()));
}

#[test]
fn report_round_trips_through_json() {
    let report = made_up(2);
    let again: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(report_document(&again), report_document(&report));
}

#[test]
fn document_has_the_tables_of_the_text_and_charts_whose_numbers_are_in_them() {
    let (report, charts) = (made_up(3), charts(&made_up(3)));
    let text = render_text(&report);
    for Table { title, rows, .. } in tables(&report).iter().filter(|table| table.title != "Settings") {
        assert!(title == "Files in the run folder" || text.contains(title), "{title}");
        let cells = rows.iter().flatten();
        cells.for_each(|cell| assert!(text.contains(cell.as_str()), "{title}: {cell}"));
    }
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let wanted = [
        "Win rates against IM",
        "True clues",
        "How games ended, each against itself",
        "How games ended, against IM",
        "Training loss, imitation",
        "Training loss, SPAG",
    ];
    assert_eq!(titles, wanted);
    for (series, seat) in charts[0].series[1..].iter().zip(taboo::LABELS.seats) {
        let last = report.first.matches.last().unwrap().win_as(seat);
        let [point, ends] = [series.points.last().unwrap(), series.intervals.last().unwrap()];
        assert_eq!((*point, *ends), ([3.0, 100.0 * last.share.unwrap()], [100.0 * last.low, 100.0 * last.high]));
    }
    for bars in &charts[2..4] {
        let sum = |place: usize| bars.series.iter().map(|series| series.points[place][1]).sum::<f64>();
        assert!((0..bars.names.len()).all(|place| (sum(place) - 100.0).abs() < 1e-9), "{bars:?}");
    }
}

/// Twenty updates of a policy that collapses.
fn updates(count: u64) -> Vec<UpdatePoint> {
    let line = |update: u64| {
        let values = [
            ("attacker_wins", 0.5),
            ("ties", 0.25),
            ("without_signal", 0.125),
            ("entropy", 2.0 / update as f64),
            ("tokens_per_utterance", 10.0 + update as f64),
            ("distinct_words", 0.5),
            ("empty_utterances", 0.0),
            ("repeated_utterances", 0.02 * update as f64),
            ("loss", -7.0),
        ];
        let mut line: Map<String, Value> =
            values.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        line.insert("too_long_utterances".to_owned(), Value::Null);
        // Only some updates are played against an opponent.
        if update > 4 {
            line.insert("opponent_score".to_owned(), 0.75.into());
        }
        UpdatePoint::new(&[(None, &taboo::LABELS)], update, &line)
    };
    (1..=count).map(line).collect()
}

#[test]
fn a_collapse_is_seen_in_the_updates_of_an_on_policy_run() {
    let offline = made_up(1);
    let online = Report { updates: updates(20), ..made_up(1) };
    let text = render_text(&online);
    let rows: Vec<String> = text
        .lines()
        .skip_while(|line| !line.starts_with("Updates: means"))
        .skip(2)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|"))
        .collect();
    let expected = [
        "mean|updates 1–2|updates 10–11|updates 19–20",
        "won by the attacker|50.0|50.0|50.0",
        "ties|25.0|25.0|25.0",
        "score against the opponent|–|75.0|75.0",
        "groups without a signal|12.5|12.5|12.5",
        "entropy, nats a token|1.500|0.191|0.103",
        "tokens an utterance|11.5|20.5|29.5",
        "distinct words|50.0|50.0|50.0",
        "empty utterances|0.0|0.0|0.0",
        "repeated utterances|3.0|21.0|39.0",
    ];
    assert_eq!(rows, expected, "{text}");
    // Results, opponent, signal, entropy, length, words and shares; nothing has a divergence.
    let (more, fewer) = (charts(&online), charts(&offline));
    let titles: Vec<&str> = more[fewer.len()..].iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(titles.len(), 7, "{titles:?}");
    let entropy = more.iter().find(|chart| chart.title == "Entropy").unwrap();
    assert_eq!((entropy.series[0].points[0], entropy.series[0].points[19]), ([1.0, 2.0], [20.0, 0.1]));
    assert!(entropy.smooth > 1 && entropy.includes == [0.0]);
    assert!(tables(&online).iter().any(|table| table.columns.contains(&"updates 19–20".to_owned())));
    // What collapses is told first.
    let warning = "Warning: The entropy fell from 1.500 to 0.103 nats a token in the last 2 updates";
    assert!(text.starts_with(warning), "{text}");
    assert!(report_document(&online).notes[0].starts_with(warning) && render_summary(&online).contains(warning));
    let again: Report = serde_json::from_str(&serde_json::to_string(&online).unwrap()).unwrap();
    assert_eq!(report_document(&again), report_document(&online));
}

#[test]
fn a_run_of_one_update_or_without_measures_has_a_report() {
    let one = Report { updates: updates(1), ..made_up(1) };
    let text = render_text(&one);
    assert!(text.contains("update 1\n"), "{text}");
    assert!(text.lines().any(|line| line.contains("repeated utterances") && line.ends_with("  2.0")), "{text}");
    let entropy = charts(&one).into_iter().find(|chart| chart.title == "Entropy").unwrap();
    assert_eq!((entropy.smooth, &entropy.series[0].points[..]), (0, &[[1.0, 2.0]][..]));
    let bare = UpdatePoint::new(&[(None, &taboo::LABELS)], 1, &Map::new());
    let none = Report { updates: vec![bare], ..made_up(1) };
    assert_eq!((render_text(&none), report_document(&none)), (render_text(&made_up(1)), report_document(&made_up(1))));
}

#[test]
fn measures_against_perfect_play_have_a_table_and_a_chart() {
    let kuhn = |exploitability| {
        GameMeter::Kuhn(KuhnMeter { bold: [[0.5; 3]; 4], exploitability, match_value: None, invalid: 0.0625 })
    };
    let results = SeatResults { won: 0, drawn: 41, lost: 52, refused: 7 };
    let solved = GameMeter::Solved(SolvedMeter {
        positions: 256,
        optimal: 0.625,
        optimal_by_chance: 0.4375,
        invalid: 0.03125,
        against_perfect: [results; 2],
    });
    for (measures, cells) in [
        ([kuhn(0.4583), kuhn(0.25)], vec!["Exploitability", "0.4583", "0.2500", "6.2"]),
        ([solved.clone(), solved], vec!["Against perfect play", "62.5", "43.8", "3.1", "0 – 41 – 52 – 7"]),
    ] {
        let plays = ["IM", "SPAG-1"].into_iter().zip(measures);
        let mut report = made_up(8);
        let without = charts(&report).len();
        report.first.exact = plays.map(|(model, measure)| ExactPlay { model: model.to_owned(), measure }).collect();
        let again: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again.first.exact, report.first.exact);
        let (text, document) = (render_text(&report), serde_json::to_string(&report_document(&report)).unwrap());
        assert!(cells.iter().all(|cell| text.contains(cell) && document.contains(cell)), "{text}");
        let charts = charts(&report);
        let chart = charts.iter().find(|chart| chart.names == ["IM", "SPAG-1"]).unwrap();
        assert!(charts.len() == without + 1 && chart.series.iter().any(|series| series.points.len() == 2));
    }
}

/// What terminals obey, what looks like rows of the report, and what reorders text.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\n      → attacker wins\n  SPAG-9  100.0\r\u{202e}txet\u{200b}";

/// A report whose texts of players, word lists and settings are all hostile.
fn hostile() -> Report {
    let mut report = made_up(6);
    report.run_dir = HOSTILE.to_owned();
    report.stopped = Some(HOSTILE.to_owned());
    report.warnings = vec![HOSTILE.to_owned()];
    report.first.training_games.iter_mut().for_each(|named| named.name = HOSTILE.to_owned());
    for pair in &mut report.first.samples {
        pair.item = HOSTILE.to_owned();
        for game in [&mut pair.before, &mut pair.after] {
            game.utterances.iter_mut().for_each(|said| {
                said.content = HOSTILE.to_owned();
                said.untrue = vec![HOSTILE.to_owned()];
            });
        }
    }
    report.files.push((HOSTILE.to_owned(), HOSTILE.to_owned()));
    report.settings.push((HOSTILE.to_owned(), HOSTILE.to_owned()));
    report
}

#[test]
fn texts_of_players_stay_on_their_line_and_drive_no_terminal() {
    let (plain, text) = (render_text(&made_up(6)), render_text(&hostile()));
    assert_eq!(spag_io::escape_table(&text), text, "nothing is left to escape");
    assert_eq!(text.lines().count(), plain.lines().count() + 5, "a file, a reason, a warning");
    assert!(text.contains("\\u{1b}]0;owned\\u{7}") && text.contains("\\u{202e}txet\\u{200b}"), "{text}");
}

#[test]
fn page_shows_control_and_directional_characters() {
    let page = report_document(&hostile()).html();
    let raw = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202e}' | '\u{200b}');
    assert!(!page.contains(raw));
    assert!(page.contains("\\\\u{202e}txet\\\\u{200b}"));
    assert_eq!(page.matches("<script").count(), 2, "the data, and the page's own");
}

#[test]
fn extreme_and_endless_losses_can_be_drawn() {
    let point = |(step, loss): (usize, f64)| LossPoint { step: step as u64, loss };
    for losses in [
        vec![f64::MIN, f64::MAX],
        vec![0.0, 5e-324],
        vec![1e300, 1.000_000_000_000_000_2e300],
        vec![f64::INFINITY, f64::NAN],
        (0..300_000).map(f64::from).collect(),
    ] {
        let points = losses.into_iter().enumerate().map(point).collect();
        let curve = LossCurve { name: "IM".to_owned(), points };
        let report = Report { losses: vec![curve], ..made_up(7) };
        let page = report_document(&report).html();
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
        // Each value of the page is a number.
        assert_eq!(Document::of_html(&page).unwrap().sections, report_document(&report).sections);
    }
}

#[test]
fn empty_report_can_be_rendered() {
    let full = made_up(4);
    let first = GameReport { matches: vec![], samples: vec![], training_games: vec![], ..full.first };
    let empty = Report { first, losses: vec![], ..full };
    let document = report_document(&empty);
    assert_eq!(Document::of_html(&document.html()).unwrap().sections, document.sections);
    assert!(render_text(&empty).contains("IM itself"));
}

/// The report of a run of Adversarial Taboo as one of a game without roles, of this name.
fn of_game(name: &str) -> Report {
    fn without_taboo(value: &mut Value) {
        match value {
            Value::Object(map) => {
                ["broken_rule", "tie"].into_iter().for_each(|ending| drop(map.remove(ending)));
                if let Some(clues) = map.get_mut("true_clues") {
                    *clues = serde_json::json!({"count": 0, "total": 0, "share": null, "low": 0.0, "high": 1.0});
                }
                map.values_mut().for_each(without_taboo);
            }
            Value::Array(all) => all.iter_mut().for_each(without_taboo),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(made_up(9)).unwrap();
    without_taboo(&mut value);
    (value["game"], value["samples"]) = (name.into(), serde_json::json!([]));
    let text = [("attacker", "player 0"), ("defender", "player 1"), ("right_guess", "chips"), ("wrong_guess", "draw")]
        .into_iter()
        .chain([("said_unknowingly", "invalid"), ("attacks", "begins"), ("defends", "follows")])
        .fold(value.to_string(), |text, (taboo, own)| text.replace(taboo, own));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn reports_of_other_games_say_nothing_of_taboo() {
    for (name, title) in [("kuhn-poker", "Kuhn Poker"), ("some-game", "some-game")] {
        let report = of_game(name);
        let (text, document) = (render_text(&report), report_document(&report));
        assert_eq!(document.title, format!("Self-play of {title}"));
        assert!(
            text.contains("more chips") && text.contains("refused actions") && text.contains("player 0 – player 1")
        );
        for taboo in ["clue", "guess", "attack", "defend", "Taboo", "repeated", "player 0s", "the player"] {
            assert!(!text.contains(taboo), "{name}, {taboo}: {text}");
        }
        let told = serde_json::to_string(&document).unwrap();
        assert!(!told.contains("clue") && !told.contains("early guesses"), "{told}");
    }
}

#[test]
fn warnings_stand_before_the_tables_that_they_qualify() {
    let mut report = made_up(1);
    report.warnings = vec!["SPAG-1: 90% of the utterances are empty".to_owned()];
    let last = report.first.matches.last_mut().unwrap();
    // One seat of the last model has 99 ties in a hundred games.
    let [attacked, mut defended] = last.seats.values().clone();
    (defended.games, defended.win) =
        (200, spag_game::PerSeat::new(&taboo::LABELS, [spag_selfplay::Rate::new(1, 2); 2]));
    last.seats = spag_game::PerSeat::new(&taboo::LABELS, [attacked, defended]);
    let ties = "as defender against IM: 99% of 200 games are ties; its win rate is of the other 2";
    for (text, number) in [(render_text(&report), "Win rates against IM"), (render_summary(&report), " wins ")] {
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at(ties) < at(number) && at("90% of the utterances are empty") < at(number), "{text}");
    }
}

#[test]
fn ties_stand_beside_the_win_rates_of_the_last_model() {
    let mut report = made_up(1);
    assert!(!render_summary(&report).contains("ties") && !render_text(&report).starts_with("Ties"));
    let last = report.first.matches.last_mut().unwrap();
    let [attacked, mut defended] = last.seats.values().clone();
    (defended.games, defended.win) =
        (200, spag_game::PerSeat::new(&taboo::LABELS, [spag_selfplay::Rate::new(60, 110); 2]));
    last.seats = spag_game::PerSeat::new(&taboo::LABELS, [attacked, defended]);
    let summary = render_summary(&report);
    assert!(summary.contains(" points, 45.0% ties)") && summary.matches("ties").count() == 1, "{summary}");
    let text = render_text(&report);
    assert!(text.starts_with("Ties, which the win rates leave out, of SPAG-3's games against IM: 45.0% as defender\n"));
    let document = report_document(&report);
    let tiles = parts(&document).find_map(|part| if let Part::Tiles(tiles) = part { Some(tiles) } else { None });
    let tie = tiles.unwrap().iter().find(|tile| tile.meaning.contains("as defender are ties")).unwrap();
    assert_eq!(tie.number, "45.0 %");
}

#[test]
fn a_run_ends_with_a_summary_of_about_ten_lines() {
    let report = made_up(1);
    let text = render_summary(&report);
    assert!((5..=10).contains(&text.lines().count()), "{text}");
    for part in ["wins", "as attacker", "report.txt", "report.html", "spag serve", "spag show", "spag compare"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let many = Report { warnings: vec!["w".to_owned(); 50], more_games: vec![report.first.clone(); 20], ..made_up(1) };
    assert!(render_summary(&many).lines().count() <= 18, "{}", render_summary(&many));
    assert_eq!(spag_io::escape_table(&render_summary(&hostile())), render_summary(&hostile()));
}
