//! Reports, comparisons and evaluations as files that a browser opens: drawn by the code of the live pages, without a server.

use std::fs;
use std::path::Path;

use serde_json::json;
use spag_run::document::{Chart, Conversation, Document, Look, Part, Said, Section, Series, ShownGames, Table, Tile};
use spag_tests::{program, run, run_tiny};

use crate::browser::Browser;

/// A text that would be a script, end one, or reorder what is around it.
const HOSTILE: &str =
    "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'><!--\u{202e}gnp.exe\u{1b}[2J";

/// A document of all parts whose every text is hostile.
pub(crate) fn hostile_document() -> Document {
    let long = format!("{HOSTILE}{}", "w".repeat(5000));
    let text = || HOSTILE.to_owned();
    let table = || Table::new(HOSTILE, [HOSTILE, &long], vec![vec![text(), text()], vec![long.clone(), text()]]);
    let series = || vec![Series::with_intervals(HOSTILE, [0.0, 1.0, 2.0].map(|x| ([x, 1e300], [f64::MIN, f64::MAX])))];
    let chart = |look, series| Chart {
        title: text(),
        note: text(),
        across: text(),
        up: text(),
        names: vec![text(), String::new(), text()],
        look,
        series,
        ..Chart::default()
    };
    let drawn = vec![Series::new(HOSTILE, [[0.0, 1.0], [1.0, -2.0], [7.0, 1e99]])];
    let charts = [Look::Lines, Look::Bars, Look::Radar].map(|look| chart(look, drawn.clone()));
    let said = |text: &str| Said { seat: HOSTILE.into(), player: text.into(), text: text.into(), note: HOSTILE.into() };
    let game = Conversation { players: text(), said: vec![said(HOSTILE), said(&long), said("")], ending: text() };
    let parts = vec![
        Part::Heading(text()),
        Part::Text(long.clone()),
        Part::Tiles(vec![Tile { number: long.clone(), meaning: text() }]),
        Part::Charts([charts.to_vec(), vec![chart(Look::Lines, series()), chart(Look::Radar, Vec::new())]].concat()),
        Part::Table(table()),
        Part::Folded(table()),
        Part::Games(ShownGames { title: text(), games: vec![game.clone(), game] }),
    ];
    let sections = vec![Section { heading: text(), parts }];
    Document { title: text(), about: text(), notes: vec![text()], sections, without_script: "" }
}

/// Nothing of a document became an element or ran.
pub(crate) fn assert_stays_text(browser: &Browser, what: &str) {
    let elements = browser.eval("document.querySelectorAll('main :is(script, img, iframe, object, style)').length");
    assert_eq!((browser.eval("typeof window.pwned"), elements), (json!("undefined"), json!(0)), "{what}");
    browser.wait_text("window.pwned = 1");
}

/// Opens a file, looks at it in all sizes and colours, and returns what it holds.
fn look_at(browser: &Browser, name: &str, file: &Path) -> Document {
    for (width, scheme) in [(360, "light"), (360, "dark"), (1600, "light"), (1600, "dark")] {
        browser.look(width, scheme);
        browser.open(&format!("file://{}", file.display()));
        browser.wait("document.querySelector('main h1')");
        browser.assert_fits(&format!("{name} at {width}, {scheme}"));
        browser.shoot(&format!("{name}-{width}-{scheme}"));
        let nameless = browser.eval(
            "[...document.querySelectorAll('table, svg, [tabindex]')].filter((one) => !one.getAttribute('aria-label') \
             && !one.textContent.trim()).length",
        );
        assert_eq!(nameless, 0, "{name}");
    }
    let document = Document::of_html(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(browser.text("main h1"), document.title);
    assert_eq!(browser.eval("document.title"), document.title.as_str());
    let parts = || document.sections.iter().flat_map(|section| &section.parts);
    let charts = parts().map(|part| if let Part::Charts(charts) = part { charts.len() } else { 0 }).sum::<usize>();
    assert_eq!(
        (browser.eval("document.querySelectorAll('.chart svg[role=img]').length"), charts > 0),
        (json!(charts), true)
    );
    // Every chart has shapes, and its numbers.
    let empty = browser.eval(
        "[...document.querySelectorAll('.chart')].filter((one) => !one.querySelector('path, rect, polygon.line') \
         || !one.querySelector('.numbers td')).map((one) => one.textContent)",
    );
    assert_eq!(empty, json!([]), "{name}");
    let cells = parts().flat_map(|part| match part {
        Part::Table(table) | Part::Folded(table) => table.rows.iter().flatten().map(String::as_str).collect(),
        _ => Vec::new(),
    });
    assert_eq!(browser.texts(".table tbody :is(th, td)"), cells.collect::<Vec<_>>(), "{name}");
    document
}

#[test]
#[ignore = "needs Chromium"]
fn report_comparison_and_evaluation_open_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a-1", "b-1"].map(|name| folder.path().join(name));
    let games = ["imitation.games=400", "self_play.games=200", "evaluation.games=60", "evaluation.arena_games=8"];
    run(&mut run_tiny(&a, &games), 0);
    // The same run with another setting.
    fs::create_dir(&b).unwrap();
    fs::copy(a.join("report.json"), b.join("report.json")).unwrap();
    let settings = fs::read_to_string(a.join("config.resolved.toml")).unwrap();
    fs::write(b.join("config.resolved.toml"), settings.replace("epochs = 1", "epochs = 2")).unwrap();
    let page = folder.path().join("compared.html");
    run(program("spag").arg("compare").args([&a, &b]).arg("--page").arg(&page), 0);
    let scores = folder.path().join("scores");
    let models = [a.join("im/model"), a.join("spag-1/model")];
    let mut eval = program("spag");
    eval.args(["eval", "--tasks", "tiny", "--limit", "20", "--names", "IM", "SPAG-1", "--output_dir"]);
    run(eval.arg(&scores).arg("--model").args(&models), 0);

    let browser = Browser::start();
    let report = look_at(&browser, "file-report", &a.join("report.html"));
    let text = fs::read_to_string(a.join("report.txt")).unwrap();
    let numbers = report.sections.iter().find(|section| section.heading == "All numbers").unwrap();
    for part in &numbers.parts {
        let Part::Table(table) = part else { continue };
        assert!(table.rows.iter().flatten().all(|cell| text.contains(cell.as_str())), "{}: {text}", table.title);
    }
    // A bubble for each utterance, at the side of its seat.
    assert!(browser.texts(".pair .said").len() > 10);
    assert_ne!(
        browser.eval("getComputedStyle(document.querySelector('.said.attacker')).alignSelf"),
        browser.eval("getComputedStyle(document.querySelector('.said.defender')).alignSelf"),
    );
    look_at(&browser, "file-compared", &page);
    assert_eq!(browser.texts(".chart:first-child .keys bdi"), ["a", "b"]);
    look_at(&browser, "file-scores", &scores.join("report.html"));
    assert_eq!(browser.texts(".chart .keys bdi"), ["IM", "SPAG-1", "chance"]);
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn hostile_documents_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    fs::write(&file, hostile_document().html()).unwrap();
    let browser = Browser::start();
    for (width, scheme) in [(360, "light"), (1600, "dark")] {
        browser.look(width, scheme);
        browser.open(&format!("file://{}", file.display()));
        browser.wait("document.querySelector('main h1')");
        assert_stays_text(&browser, "a hostile document");
        browser.assert_fits("a hostile document");
        browser.shoot(&format!("file-hostile-{width}"));
    }
    // What reorders text is shown.
    assert!(browser.text("main h1").ends_with("<!--\\u{202e}gnp.exe\\u{1b}[2J"));
    browser.end(&[]);
}
