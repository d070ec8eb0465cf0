//! The page of `spag watch` with a run beside another one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spag_tests::{Serve, program, run};

use crate::browser::Browser;
use crate::watch_routes::{finished_run, run_in_progress};

/// A finished run and one in progress, both named `run`, in one folder.
fn two_runs(dir: &Path) -> [PathBuf; 2] {
    let [a, b] = [dir.join("a/run"), dir.join("b/run")];
    for (made, at) in [(finished_run(), &a), (run_in_progress(), &b)] {
        fs::create_dir(at.parent().unwrap()).unwrap();
        fs::rename(made.keep(), at).unwrap();
    }
    [a, b]
}

pub(crate) fn watch(runs: &[PathBuf]) -> Serve {
    Serve::start_command(program("spag").arg("watch").args(runs).args(["--port", "0"]))
}

#[test]
fn each_run_is_asked_for_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let server = watch(&two_runs(folder.path()));
    let live = |query: &str| server.get(&format!("/page/live{query}")).ok();
    let (first, second) = (live(""), live("?run=1"));
    let ended =
        |live: &Value| live["sets"].as_array().unwrap().iter().map(|set| set["games"].clone()).collect::<Value>();
    assert_eq!((&first["state"], ended(&first)), (&json!("finished"), json!([30, 8, 8, 8])));
    assert_eq!((&second["state"], ended(&second)), (&json!("running"), json!([30, 3])));
    for live in [&first, &second] {
        assert_eq!(live["labels"], json!(["a/run", "b/run"]));
    }
    let curves = |query: &str| server.get(&format!("/page/live/curves?{query}"));
    assert_eq!(curves("stage=im").ok(), curves("stage=im&run=1").ok());
    assert_eq!(curves("stage=spag-2").ok()["curves"]["loss"][0], json!([1.0, 2.0]));
    assert_eq!(curves("stage=spag-2&run=1").ok()["curves"], json!({}));
    for path in ["/page/live?run=2", "/page/live/curves?stage=im&run=2"] {
        let reply = server.get(path);
        assert!(reply.status == 400 && reply.error().contains("2 runs"), "{reply:?}");
    }
    // Games and report are those of the first run.
    assert_eq!(server.get("/page/run").ok()["files"].as_array().unwrap().len(), 4);
}

#[test]
fn other_folders_are_checked_as_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = two_runs(folder.path());
    let empty = folder.path().join("words");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("words.txt"), "tea").unwrap();
    for (other, problem) in [
        (a.join("../run"), "it is given twice"),
        (empty, "no config.resolved.toml"),
        (b.join("none"), "name the run_dir of a run"),
    ] {
        let (_, err) = run(program("spag").arg("watch").args([&a, &b, &other]).args(["--port", "0"]), 2);
        assert!(err.contains(problem), "{err}");
    }
}

#[test]
#[ignore = "needs Chromium"]
fn curves_and_win_rates_of_two_runs_share_their_charts() {
    let folder = tempfile::tempdir().unwrap();
    let server = watch(&two_runs(folder.path()));
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.wait_text("Runs beside each other");
    let rows = "[...document.querySelectorAll('[aria-label=Runs] tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))";
    assert_eq!(
        browser.eval(rows),
        json!([["a/run", "finished", "6 of 6", "2 h 16 min", "54"], ["b/run", "running", "2 of 6", "10 s", "33"]])
    );
    let first = "[...document.querySelectorAll('[aria-label=\"Win rates\"] tbody th')].map((cell) => cell.textContent)";
    let titles = browser.eval(first);
    let titles: Vec<&str> = titles.as_array().unwrap().iter().map(|title| title.as_str().unwrap()).collect();
    assert_eq!(titles.len(), 6, "{titles:?}");
    assert!(titles[0].ends_with("· a/run") && titles[1].ends_with("· b/run"), "{titles:?}");
    // The list is made anew while stages are read; this is the last one.
    browser.wait("document.querySelector('select[name=curves] option[value=spag-2]')");
    // Of the imitation stage, which both have, every curve has a line for each run.
    browser.choose("curves", "im");
    let keys = "[...document.querySelectorAll('.chart')].find((one) => one.querySelector('figcaption').textContent === 'Loss')\
                ?.querySelectorAll('.keys li') ?? []";
    browser.wait(&format!("[...({keys})].length === 2"));
    let names = browser.eval(&format!("[...({keys})].map((one) => one.textContent.replace(/ [0-9.]+$/, ''))"));
    assert_eq!(names, json!(["im · a/run", "im · b/run"]));
    browser.end(&[]);
}
