//! `spag env` answers line by line, and ends with the exit codes of its errors.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;
use spag_tests::{fixture, program, run};

#[test]
fn games_are_played_by_lines() {
    let words = fixture("games/words.txt");
    let mut command = program("spag");
    command.args(["env", "--game", "dont-say-it", "--data", words.to_str().unwrap()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut requests, mut answers) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut ask = |request: &str| -> Value {
        // Each answer comes before the next request.
        requests.write_all(format!("{request}\n").as_bytes()).unwrap();
        serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap()
    };
    assert_eq!(ask("")["code"], "INVALID_JSON");
    let drawn = ask(r#"{"type":"reset","options":{"max_turns":2}}"#);
    let again = ask(&format!(r#"{{"type":"reset","seed":{},"options":{{"max_turns":2}}}}"#, drawn["seed"]));
    assert_eq!((&again, again["observations"][0]["kind"].as_str()), (&drawn, Some("prompt")));
    assert_eq!(ask(&" ".repeat((16 << 20) + 1))["code"], "INVALID_JSON");
    for player in [1, 0] {
        let said = ask(r#"{"type":"step","action":"?"}"#);
        assert_eq!(
            (&said["player"], said["observations"].as_array().unwrap().last().unwrap()["text"].as_str()),
            (&player.into(), Some("?"))
        );
    }
    let last = ask(r#"{"type":"step","action":"?"}"#);
    assert_eq!(
        (&last["done"], last["reason"].as_str(), &last["rewards"]["0"]),
        (&true.into(), Some("turn_limit"), &0.into())
    );
    requests.write_all(b"{\"type\":\"close\"}\n{}\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(answers.next().is_none());
}

#[test]
fn unknown_games_and_missing_data_are_refused() {
    let facts = fixture("games/facts.json");
    let facts = facts.to_str().unwrap();
    for (arguments, words) in [
        (&["--game", "nims"][..], "did you mean \"nim\"?"),
        (&["--game", "truth-and-deception"], "it needs a JSON list of pairs of facts"),
        (&["--game", "nim", "--data", facts], "nim: it takes no data"),
        (&["--game", "taboo", "--data", "missing.txt"], "missing.txt"),
    ] {
        let (out, err) = run(program("spag").arg("env").args(arguments).stdin(Stdio::null()), 2);
        assert!(out.is_empty() && err.contains(words), "{arguments:?}: {err}");
    }
    let (out, _) = run(program("spag").args(["env", "--game", "nim"]).stdin(Stdio::null()), 0);
    assert!(out.is_empty());
}
