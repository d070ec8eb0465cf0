//! The page of `spag watch` in the browser, on folders made for it.

use std::fs;

use serde_json::json;
use spag_run::{RankState, RankStatus};
use spag_tests::Serve;

use crate::browser::Browser;
use crate::compared_runs;
use crate::watch_routes::{finished_run, game, run_in_progress, status, updates_of_ties, write_status};

#[test]
#[ignore = "needs Chromium"]
fn page_follows_the_files_of_a_run() {
    let folder = run_in_progress();
    let dir = folder.path();
    fs::write(dir.join("spag-1/metrics.jsonl"), updates_of_ties()).unwrap();
    let server = Serve::watch(dir);
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.wait_text("spag-1: games");
    browser.wait_text("Warning: 100% of the games of the last update are ties");
    browser.wait_text("50 of 100");
    assert_eq!(browser.text(".state .badge"), "running");
    assert_eq!(browser.eval("document.querySelector('progress').value"), 50);
    browser.wait("document.querySelectorAll('.feed > li').length === 10");
    assert_eq!(browser.texts(".feed > li:first-child mark"), ["I know the word! It is tiger"]);
    assert_eq!(browser.texts(".feed > li:first-child .word"), ["The word: zebra"]);
    browser.wait_text("the newest stage");
    browser.wait("[...document.querySelectorAll('.chart figcaption')].some((one) => one.textContent === 'Loss')");
    // Every chart has a name that says its last numbers, and the numbers as a table.
    let unnamed = browser.eval(
        "[...document.querySelectorAll('.chart')].filter((one) => !one.querySelector('svg[role=img]').getAttribute('aria-label') \
         || one.querySelectorAll('table tbody tr').length === 0).length",
    );
    assert_eq!(unnamed, 0);

    // Two games end; the list is held, so that they are counted but not shown.
    browser.press("Hold the games");
    let path = dir.join("spag-1/episodes.jsonl");
    let half = fs::read_to_string(&path).unwrap();
    let whole: String = half.lines().take(3).map(|line| format!("{line}\n")).collect();
    fs::write(&path, whole + game(3, "boot", &["x", "Is it a boot?"]).as_str()).unwrap();
    write_status(dir, &RankStatus { done: 60, ..status(RankState::Running, "spag-1", "games") });
    browser.wait_text("60 of 100");
    browser.wait_text("unknowingly 1");
    assert_eq!(browser.texts(".feed > li:first-child .word"), ["The word: zebra"]);
    browser.press("Hold the games");
    let text = fs::read_to_string(&path).unwrap() + game(4, "lamp", &["x", "Is it a lamp?"]).as_str();
    fs::write(&path, text).unwrap();
    browser.wait("document.querySelector('.feed > li:first-child .word').textContent === 'The word: lamp'");
    assert_eq!(browser.texts(".feed > li:first-child mark"), ["lamp"]);

    // The run fails, and its folder goes away.
    let error = Some("no space <b>left</b>".to_owned());
    write_status(dir, &RankStatus { error, ..status(RankState::Failed, "spag-1", "") });
    browser.wait("document.querySelector('.state .badge').textContent === 'failed'");
    browser.wait_text("no space <b>left</b>");
    fs::remove_dir_all(dir).unwrap();
    browser.wait_text("It may have been deleted or moved");
    drop(server);
    browser.wait_text("The server does not answer");
    // What was known stays.
    assert!(browser.text("[aria-label=Stages]").contains("spag-1"));
    browser.end(&["net::ERR"]);
}

#[test]
#[ignore = "needs Chromium"]
fn finished_run_shows_its_curves_games_and_report() {
    let folder = finished_run();
    let server = Serve::watch(folder.path());
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.wait_text("The run is finished.");
    browser.choose("curves", "all");
    browser.wait("document.querySelectorAll('.charts .chart:first-child path').length >= 1");
    browser
        .wait("[...document.querySelectorAll('.chart')].some((one) => one.querySelectorAll('path.line').length === 3)");
    let keys = browser.texts(".chart:has(path:nth-of-type(3)) .keys li");
    assert!(keys.iter().any(|key| key.starts_with("spag-2")), "{keys:?}");
    let path = |css: &str| {
        let loss = "[...document.querySelectorAll('.chart')].find((one) => one.querySelector('figcaption').textContent === 'Loss')";
        browser.eval(&format!("{loss}.querySelector('{css}').getAttribute('d')"))
    };
    let drawn = || path("path.line:not(.raw)");
    let plain = drawn();
    browser.choose("smoothing", "5");
    browser.wait("document.querySelector('.charts .chart path.raw')");
    assert_eq!(path("path.raw"), plain);
    assert_ne!(drawn(), plain);
    browser.choose("smoothing", "1");
    browser.wait("!document.querySelector('.charts .chart path.raw')");
    let means = browser.eval("(window.means = null, import('/page/charts.js').then(({ smoothed }) => { means = smoothed([[1, 4], [2, 0], [3, 2]], 2); }), 1)");
    assert_eq!(means, 1);
    browser.wait("window.means");
    assert_eq!(browser.eval("means"), json!([[1, 4], [2, 2], [3, 1]]));
    browser.press("Games");
    browser.wait("document.querySelector('table.games')");
    browser.click("tbody a");
    browser.wait("document.querySelector('.verdict:not([hidden])')");
    assert_eq!(
        browser.eval("[...document.querySelectorAll('.actions button')].map((one) => one.textContent)"),
        json!(["Download JSON"])
    );
    browser.press("Live");
    browser.press("Open the report");
    browser.wait("document.querySelector('.report .chart svg')");
    assert_eq!(browser.eval("document.querySelector('nav [aria-current]').textContent"), "Report");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn watched_run_fits_and_has_names_at_360_and_1600_pixels() {
    let (working, finished) = (run_in_progress(), finished_run());
    let both = [finished.path().to_owned(), working.path().to_owned()];
    let servers = [
        ("working", Serve::watch(working.path())),
        ("finished", Serve::watch(finished.path())),
        ("compared", compared_runs::watch(&both)),
    ];
    let browser = Browser::start();
    for (width, scheme) in [(360, "light"), (360, "dark"), (1600, "light"), (1600, "dark")] {
        browser.look(width, scheme);
        for (name, server) in &servers {
            browser.open(&server.url("/"));
            browser.wait("document.querySelector('.feed > li') && document.querySelectorAll('.chart').length > 3");
            browser.assert_fits(&format!("{name} at {width}, {scheme}"));
            browser.shoot(&format!("watch-{name}-{width}-{scheme}"));
            // No number goes on in the next line.
            let broken = browser.eval(
                "[...document.querySelectorAll('.rows td, .numbers td')].filter((cell) => /^[\\d.,]+$/.test(cell.textContent) \
                 && cell.getClientRects().length > 0 && cell.clientHeight > 1.9 * parseFloat(getComputedStyle(cell).lineHeight) \
                 + parseFloat(getComputedStyle(cell).paddingTop) * 2).map((cell) => cell.textContent)",
            );
            assert_eq!(broken, json!([]), "{name} at {width}");
            let height = browser.eval("document.scrollingElement.scrollHeight").as_f64().unwrap();
            assert!(height < 9000.0, "{name} at {width} is {height} pixels high");
            let nameless = browser.eval(
                "[...document.querySelectorAll('button, select, a, progress, table, svg')].filter((one) => \
                 !one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels?.[0]?.textContent.trim()).length",
            );
            assert_eq!(nameless, 0, "{name}");
        }
    }
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn hostile_run_stays_text() {
    let folder = run_in_progress();
    let dir = folder.path();
    let texts = [
        "<script>window.pwned = 1</script>",
        "<img src=x onerror='window.pwned = 1'>",
        "\u{202e}gnp.exe\u{1b}[2J",
        "</td></table><b>",
        "javascript:alert(1)",
    ];
    let games: String =
        texts.iter().enumerate().map(|(at, text)| game(at, &format!("w{text}"), &[text, text])).collect();
    fs::write(dir.join("spag-1/episodes.jsonl"), games + game(9, "tiger", &[&"w".repeat(9000), "tiger"]).as_str())
        .unwrap();
    let stages: Vec<_> = texts.iter().map(|text| json!({"name": text, "folder": "im", "parts": [text]})).collect();
    fs::write(dir.join("stages.json"), json!(stages).to_string()).unwrap();
    let done = json!({"seconds": {texts[0]: 3}, "counts": {texts[1]: 4}});
    fs::write(dir.join("im/done.json"), done.to_string()).unwrap();
    fs::write(
        dir.join("im/metrics.jsonl"),
        json!({"step": 1, "loss": 1, texts[0]: 2, texts[1]: 1e300}).to_string() + "\n",
    )
    .unwrap();
    let error = Some(texts.concat());
    let hostile = RankStatus {
        note: texts[0].into(),
        host: texts[1].into(),
        error,
        ..status(RankState::Failed, texts[0], texts[1])
    };
    write_status(dir, &hostile);
    let server = Serve::watch(dir);
    let browser = Browser::start();
    for (width, scheme) in [(360, "light"), (1600, "dark")] {
        browser.look(width, scheme);
        browser.open(&server.url("/"));
        let games = if width == 360 { 3 } else { 6 };
        browser.wait(&format!(
            "document.querySelectorAll('.feed > li').length >= {games} && document.querySelector('.chart')"
        ));
        browser.wait_text("window.pwned = 1");
        browser.assert_fits("a hostile run");
        let elements =
            browser.eval("document.querySelectorAll('main :is(script, img, iframe, object, style, b b)').length");
        assert_eq!((browser.eval("typeof window.pwned"), elements), (json!("undefined"), json!(0)));
        browser.shoot(&format!("watch-hostile-{width}"));
    }
    browser.end(&[]);
}
