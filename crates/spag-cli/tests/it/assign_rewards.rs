//! `spag-assign-rewards` from the command line to the files.

use std::fs;

use serde_json::Value;
use spag_tests::{fixture, json, program, run};

#[test]
fn reference_command_gives_the_reference_rewards() {
    let folder = tempfile::tempdir().unwrap();
    let sft = folder.path().join("alpaca.json");
    fs::write(&sft, r#"[{"prompt": "Two and two?", "answer": "Four."}, {"query": "q", "target": "t"}]"#).unwrap();
    let cases = fixture("judge_cases.jsonl");
    let (out, _) = run(
        program("spag-assign-rewards")
            .current_dir(folder.path())
            .arg("--input_data_path")
            .arg(&cases)
            .args(["--output_data_path", "samples.json", "--sft_data_path", "alpaca.json"])
            // Either spelling.
            .args(["--outcomes-path=outcomes.jsonl"]),
        0,
    );
    let expected = json(fixture("reward_cases.json"));
    let (expected, written) = (expected["samples"].as_array().unwrap(), json(folder.path().join("samples.json")));
    let written = written.as_array().unwrap();
    assert_eq!(written.len(), expected.len() + 2);
    for (written, expected) in written.iter().zip(expected) {
        for key in ["target", "reward", "role", "weight"] {
            assert_eq!(written[key], expected[key]);
        }
    }
    assert!(written.iter().rev().take(2).all(|row| row["type"] == "sft" && row["weight"] == 1.0));

    let outcomes = fs::read_to_string(folder.path().join("outcomes.jsonl")).unwrap();
    let cases = fs::read_to_string(cases).unwrap();
    assert_eq!(outcomes.lines().count(), 3000);
    for (outcome, case) in outcomes.lines().zip(cases.lines()) {
        let (outcome, case): (Value, Value) =
            (serde_json::from_str(outcome).unwrap(), serde_json::from_str(case).unwrap());
        for key in ["outcome", "history_length"] {
            assert_eq!(outcome[key], case[key]);
        }
    }
    for words in ["3000 episodes", "attacker wins", "defender wins", "demonstrations", "weight 2.1645", "samples.json"]
    {
        assert!(out.contains(words), "{words} in {out}");
    }
}

#[test]
fn reward_norm_judge_seed_and_decay_change_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, flags: &[&str]| {
        let mut command = program("spag-assign-rewards");
        command.current_dir(folder.path()).arg("--input_data_path").arg(fixture("judge_cases.jsonl"));
        run(command.args(["--output_data_path", name]).args(flags), 0);
        fs::read_to_string(folder.path().join(name)).unwrap()
    };
    let default = written("a.jsonl", &[]);
    assert_eq!(default, written("b.jsonl", &["--reward_norm", "sum", "--judge", "paper", "--decay_weight", "0.8"]));
    for flags in [["--reward_norm", "mean"], ["--judge", "whole-word"], ["--seed", "1"], ["--decay_weight", "0.5"]] {
        assert_ne!(default, written("c.jsonl", &flags), "{flags:?}");
    }
}

#[test]
fn invalid_settings_are_rejected() {
    for (flags, words) in [
        (vec!["--decay_weight", "0"], "--decay_weight"),
        (vec!["--reward_norm", "max"], "sum"),
        (vec!["--judge", "jury"], "whole-word"),
        (vec!["--seed", "-1"], "--seed"),
        (vec!["--output_data_path"], "--output_data_path"),
        (vec!["--sft_data_paths", "x"], "--sft_data_path"),
    ] {
        let mut command = program("spag-assign-rewards");
        let (_, err) = run(command.args(["--input_data_path", "a", "--output_data_path", "b"]).args(&flags), 2);
        assert!(err.starts_with("error: ") && err.contains(words), "{flags:?}: {err}");
    }
}
