//! The page of `spag watch` in the browser, beside a real run.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use spag_tests::{Running, Serve, run_tiny, wait_until};

use crate::browser::Browser;

/// A run of the loop in `dir` that lasts some seconds.
fn small_run(dir: &Path) -> Command {
    run_tiny(dir, &["imitation.games=400", "self_play.games=1200", "evaluation.games=60"])
}

/// The games of [`small_run`]: imitation, self-play, three matches of the evaluation, and its self-play.
const GAMES: u64 = 400 + 1200 + 3 * 60 + 20;

/// The number of games that have ended, by the page's table of win rates.
const ENDED: &str = "[...document.querySelectorAll('[aria-label=\"Win rates\"] tbody tr')]\
                     .reduce((sum, row) => sum + Number(row.cells[1].textContent.replaceAll(',', '')), 0)";
const STATE: &str = "document.querySelector('.state .badge').textContent";

#[test]
#[ignore = "needs Chromium"]
fn run_is_watched_from_its_own_process_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    // Before the run, which lasts seconds: a browser may take as long to start.
    let browser = Browser::start();
    let mut command = small_run(&dir);
    let mut process = Running::start(command.args(["--watch=0"]).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut terminal = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = terminal.next().unwrap().unwrap();
    let address = line.strip_prefix("the run can be watched on http://").unwrap().to_owned();
    let terminal = std::thread::spawn(move || terminal.map(Result::unwrap).collect::<Vec<_>>());
    browser.open(&format!("http://{address}/"));
    browser.wait(&format!("{STATE} === 'running'"));
    browser.wait("document.querySelector('.doing').textContent.match(/^(im|spag-1): /)");
    browser.wait(&format!("{ENDED} > 0"));
    browser.wait("document.querySelector('.feed > li .verdict:not([hidden])')");
    let ended = browser.eval(ENDED).as_u64().unwrap();
    browser.wait(&format!("{ENDED} > {ended}"));
    browser.wait("document.querySelector('.chart figcaption') && document.querySelectorAll('path.line').length > 2");
    browser.shoot("watch-run");
    // The page sees the end, though the server ends with the run.
    browser.wait(&format!("{STATE} === 'finished'"));
    assert_eq!(browser.eval(ENDED), GAMES);
    browser.wait("!document.querySelector('.state a[href=\"#runs?report\"]').hidden");
    assert!(process.wait_for(Duration::from_secs(300)).unwrap().success());
    // The terminal says the result, and where everything is.
    let mut summary = String::new();
    process.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
    assert!(summary.starts_with("The run is finished") && summary.lines().count() <= 10, "{summary}");
    assert!(summary.contains(&dir.join("report.txt").display().to_string()), "{summary}");
    assert!(std::fs::read_to_string(dir.join("report.txt")).unwrap().contains("benchmarks  "));
    let lines = terminal.join().unwrap();
    assert!(lines.iter().any(|line| line.starts_with("stage 2 of 5: im (1 done")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("spag-1: training: ")), "{lines:?}");
    browser.wait_text("The server does not answer");
    browser.end(&["net::ERR"]);
}

#[test]
#[ignore = "needs Chromium"]
fn interrupted_run_is_watched_and_taken_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let browser = Browser::start();
    let run = Running::start_quietly(&mut small_run(&dir));
    wait_until("the run begins", Duration::from_secs(300), || dir.join("config.resolved.toml").exists());
    let server = Serve::watch(&dir);
    browser.open(&server.url("/"));
    browser.wait("document.querySelector('.doing').textContent.startsWith('spag-1: ')");
    drop(run);
    browser.wait(&format!("{STATE} === 'interrupted'"));
    browser.wait_text("its process is gone");
    let stages = browser.texts("[aria-label=Stages] .badge");
    // The page shows a stage some time after it began, so the process may have been killed in a later one.
    let killed = stages.iter().position(|stage| stage == "interrupted").unwrap();
    assert!(killed >= 2, "{stages:?}");
    assert!(stages[..killed].iter().all(|stage| stage == "done"), "{stages:?}");
    assert!(stages[killed + 1..].iter().all(|stage| stage == "waiting"), "{stages:?}");
    let mut again = Running::start_quietly(&mut small_run(&dir));
    browser.wait(&format!("{STATE} === 'running'"));
    browser.wait(&format!("{STATE} === 'finished'"));
    assert!(again.wait_for(Duration::from_secs(300)).unwrap().success());
    assert_eq!(browser.eval(ENDED), GAMES);
    browser.press("Open the report");
    browser.wait("document.querySelector('.report .chart svg')");
    browser.end(&[]);
}
