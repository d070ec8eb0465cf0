//! `spag env` answers line by line, and ends with the exit codes of its errors.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};
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

/// The answers to steps of a game of tic-tac-toe.
fn steps(arguments: &[&str], actions: &[&str]) -> Vec<Value> {
    let mut command = program("spag");
    command.args(["env", "--game", "tic-tac-toe"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let steps = actions.iter().map(|action| json!({"type": "step", "action": action}));
    let requests = [json!({"type": "reset", "seed": 7})].into_iter().chain(steps);
    let requests: String = requests.map(|request| format!("{request}\n")).collect();
    child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let answers = child.wait_with_output().unwrap();
    assert!(answers.status.success());
    let answers = String::from_utf8(answers.stdout).unwrap();
    answers.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn reasoning_of_a_step_is_no_action_and_is_shown_to_no_player() {
    let tags = ["--reasoning", "think", "--reasoning_tags", "[A] [/A]"];
    for (arguments, first, second) in [
        (&["--reasoning", "think"][..], "<think>Not [8], secret.</think>\n[4]", "secret [2]</think>[0]"),
        (&["--reasoning", "boxed"], "Not [8], secret: \\boxed{[4]}.", "\\boxed{[2]}, no, secret \\boxed{0}"),
        (&tags, "[A][8] secret[/A][4]", " [A] secret [/A] 0"),
    ] {
        let answers = steps(arguments, &[first, second]);
        assert_eq!((&answers[0]["invalid"], &answers[1]["invalid"]), (&json!(false), &json!(false)), "{answers:?}");
        assert_eq!(answers[1]["state"]["board"], "X...O....", "{answers:?}");
        assert!(!json!(answers).to_string().contains("secret"), "{answers:?}");
    }
    // Reasoning that does not end is no action.
    for (arguments, said) in [(["--reasoning", "think"], "<think>[4]"), (["--reasoning", "boxed"], "[4]")] {
        let refused = &steps(&arguments, &[said])[0];
        assert_eq!((&refused["invalid"], &refused["refusal"]), (&json!(true), &json!("format")), "{refused}");
        assert!(!refused.to_string().contains("[4]\""), "{refused}");
    }
    // By default all is said.
    assert!(steps(&[], &["<think>secret</think>[4]"])[0].to_string().contains("secret"));
}

#[test]
fn unknown_games_missing_data_and_rules_of_models_are_refused() {
    let facts = fixture("games/facts.json");
    let facts = facts.to_str().unwrap();
    for (arguments, words) in [
        (&["--game", "nims"][..], "did you mean \"nim\"?"),
        (&["--game", "truth-and-deception"], "it needs a JSON list of pairs of facts"),
        (&["--game", "nim", "--data", facts], "nim: it takes no data"),
        (&["--game", "taboo", "--data", "missing.txt"], "missing.txt"),
        (&["--game", "nim", "--reasoning", "auto"], "--reasoning auto: there is no model"),
        (&["--game", "nim", "--reasoning", "thinks"], "--reasoning"),
        (&["--game", "nim", "--reasoning", "think", "--reasoning_tags", "<a>"], "not two tags"),
    ] {
        let (out, err) = run(program("spag").arg("env").args(arguments).stdin(Stdio::null()), 2);
        assert!(out.is_empty() && err.contains(words), "{arguments:?}: {err}");
    }
    let (out, _) = run(program("spag").args(["env", "--game", "nim"]).stdin(Stdio::null()), 0);
    assert!(out.is_empty());
}
