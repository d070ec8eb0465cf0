//! `spag eval --tasks games`: measures against perfect play, interrupted and repeated.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spag_tests::{change_tensor, copy_folder, json, program, root, run};

fn eval(models: &[&Path], out: &Path, games: &[&str]) -> Command {
    let mut command = program("spag");
    command.args(["eval", "--tasks", "games", "--limit", "3", "--output_dir"]).arg(out);
    command.arg("--model").args(models);
    if !games.is_empty() {
        command.arg("--game").args(games);
    }
    command
}

#[test]
fn models_are_measured_game_by_game_and_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let base = root().join("data/tiny-llama");
    let (out, whole) = (folder.path().join("out"), folder.path().join("whole"));
    let (text, _) = run(&mut eval(&[&base], &out, &["kuhn-poker rounds=1  bets_count=true", "nim"]), 0);
    assert!(text.contains("kuhn-poker rounds=1 bets_count=true: Exploitability"), "{text}");
    let first = json(out.join("games.json"));
    let kuhn = &first["games"]["kuhn-poker rounds=1 bets_count=true"]["tiny-llama"];
    // The value of the game is at most what a best responder wins, and this model does not know the actions.
    assert!(kuhn["exploitability"].as_f64().unwrap() > 0.0 && kuhn["invalid"].as_f64().unwrap() > 0.9, "{kuhn}");
    assert!(kuhn["match_value"].as_f64().unwrap() > 0.0, "{kuhn}");
    let nim = &first["games"]["nim"]["tiny-llama"];
    assert_eq!(nim["positions"], 3);
    assert_eq!(nim["against_perfect"][1]["refused"], 3, "{nim}");

    // A game of a record is not measured again; what is added does not depend on it.
    let record = out.join("tiny-llama/games.json");
    let mut edited = json(&record);
    edited["games"]["nim"]["optimal"] = 0.125.into();
    std::fs::write(&record, edited.to_string()).unwrap();
    run(&mut eval(&[&base], &out, &["nim", "tic-tac-toe"]), 0);
    let again = json(out.join("games.json"));
    assert_eq!(again["games"]["nim"]["tiny-llama"]["optimal"], 0.125);
    run(&mut eval(&[&base], &whole, &["tic-tac-toe"]), 0);
    let alone: Value = json(whole.join("games.json"));
    assert_eq!(alone["games"]["tic-tac-toe"], again["games"]["tic-tac-toe"]);

    // Another checkpoint is not taken for the recorded one.
    let other = folder.path().join("tiny-llama");
    copy_folder(&base, &other);
    change_tensor(&other, "lm_head.weight", |values, _| values.iter_mut().for_each(|value| *value *= 0.5));
    let (_, error) = run(&mut eval(&[&other], &out, &["nim"]), 2);
    assert!(error.contains("of another model"), "{error}");
}

#[test]
fn games_that_are_unknown_or_not_solved_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = root().join("data/tiny-llama");
    for (game, expected) in [
        ("kuhn-pokr", "did you mean \"kuhn-poker\"?"),
        ("nim pile=[3]", "did you mean \"piles\"?"),
        ("connect-four", "is not solved"),
        ("liars-dice", "is not solved"),
    ] {
        let (_, error) = run(&mut eval(&[&base], folder.path(), &[game]), 2);
        assert!(error.contains(expected), "{error}");
    }
    let mut command = program("spag");
    command.args(["eval", "--tasks", "tiny", "--game", "nim", "--output_dir"]).arg(folder.path());
    let (_, error) = run(command.arg("--model").arg(&base), 2);
    assert!(error.contains("--game: it is a flag of --tasks games"), "{error}");
}
