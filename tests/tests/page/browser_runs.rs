//! The games of a run in the browser.

use crate::browser::Browser;
use crate::browser_documents::assert_stays_text;
use crate::models::Cast;
use crate::run_routes::run_folder;

#[test]
#[ignore = "needs Chromium"]
fn games_of_a_run_are_filtered_paged_and_opened() {
    let folder = run_folder();
    let server = Cast::new(&[("clue", "It has stripes")]).with(&["--run", folder.path().to_str().unwrap()]).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.press("Games of a run");
    browser.choose("file", "eval/im-vs-spag-1.jsonl");
    browser.wait_text("100 games");
    assert_eq!(browser.texts("tbody tr").len(), 25);
    // Colours of endings are not those of who won.
    let colours = |css: &str| {
        browser.eval(&format!(
            "[...document.querySelectorAll('{css}')].map((one) => getComputedStyle(one).backgroundColor)"
        ))
    };
    let (endings, winners) = (colours(".part"), colours(".dot"));
    let winners = winners.as_array().unwrap();
    assert!(endings.as_array().unwrap().len() > 2 && winners.len() == 25);
    assert!(endings.as_array().unwrap().iter().all(|colour| !winners.contains(colour)), "{endings}");
    browser.press("Next");
    browser.wait_text("Page 2 of 4");
    browser.choose("ending", "wrong_guess");
    browser.wait_text("20 of 100 games");
    // The filter that was used keeps the focus, and the address has all of them.
    browser.wait("document.activeElement.name === 'ending'");
    browser.choose("winner", "defender");
    browser.wait_text("No game meets these conditions");
    browser.choose("ending", "");
    browser.wait_text("40 of 100 games");
    browser.type_into("input[name=word]", "TIGER\n");
    browser.wait_text("20 of 100 games");
    let address = browser.eval("location.hash");
    browser.refresh();
    browser.wait_text("20 of 100 games");
    assert_eq!(browser.eval("location.hash"), address);

    browser.click("tbody a");
    browser.wait("document.querySelector('.verdict:not([hidden])')");
    assert_eq!(browser.texts(".who"), ["Attacker · IM", "Defender · SPAG-1"]);
    assert_eq!(browser.texts("mark"), ["I know the word! It is tiger"]);
    browser.press("Back to the list");
    browser.wait_text("20 of 100 games");
    browser.press("The report of this run");
    browser.wait("document.querySelector('.report .chart svg')");
    assert_eq!(browser.text("main h2"), format!("Report of {}", folder.path().file_name().unwrap().to_str().unwrap()));
    assert_stays_text(&browser, "a hostile report");
    browser.press("Back to the games");
    browser.wait("document.querySelector('table')");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn hostile_files_of_a_run_stay_text() {
    let folder = run_folder();
    let server = Cast::new(&[("clue", "It has stripes")]).with(&["--run", folder.path().to_str().unwrap()]).serve();
    let browser = Browser::start();
    browser.look(360, "light");
    browser.open(&server.url("/#runs?file=hostile/episodes.jsonl"));
    browser.wait("document.querySelector('tbody tr')");
    browser.wait_text("rows of this file are no games");
    browser.assert_fits("a list of hostile games");
    let rows = browser.texts("tbody tr").len();
    for row in 1..=rows {
        browser.open(&server.url(&format!("/#runs?file=hostile/episodes.jsonl&row={row}")));
        browser.wait(&format!("document.querySelector('.board') && location.hash.endsWith('row={row}')"));
        browser.assert_fits("a hostile game");
    }
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    for wrong in
        ["file=../../etc/passwd", "file=hostile/episodes.jsonl&row=9999", "file=x&ending=<b>", "ending=y&winner=z"]
    {
        browser.open(&server.url(&format!("/#runs?{wrong}")));
        browser.wait("document.querySelector('.problem[role=alert]')");
    }
    browser.end(&["400 (Bad Request)", "404 (Not Found)"]);
}
