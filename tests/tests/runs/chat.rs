//! The loop with a chat template, and the programs with `--prompt_format`.

use std::fs;
use std::path::Path;
use std::process::Command;

use spag_tests::{chat_prompts, chatml_tiny, json, json_lines, program, run, run_tiny};

/// A small run in chats.
fn chat_run(dir: &Path, more: &[&str]) -> Command {
    let prompts = chat_prompts(dir, |file| {
        file["rules"] = serde_json::json!(["A game of Adversarial Taboo."]);
        file["chat"]["instruction"]["attacker"] = serde_json::json!(" Your word is {target_word}.");
    });
    let base = format!("base_model={}", dir.join("base").display());
    let prompts = format!("prompts={}", prompts.display());
    let games = ["imitation.games=200", "self_play.games=80", "evaluation.games=20"];
    let settings: Vec<&str> = [base.as_str(), &prompts].into_iter().chain(games).chain(more.iter().copied()).collect();
    run_tiny(&dir.join("run"), &settings)
}

#[test]
fn loop_plays_and_trains_in_chats() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    chatml_tiny(&dir.join("base"));
    let (out, _) = run(&mut chat_run(dir, &["prompt_format=\"chat\""]), 0);
    assert!(out.contains("SPAG-1"), "{out}");
    let root = dir.join("run");
    for stage in ["im", "spag-1"] {
        let samples = json_lines(root.join(stage).join("samples.jsonl"));
        let chats = samples.iter().filter(|sample| sample["messages"].is_array());
        assert!(chats.clone().count() > 0, "{stage}");
        for sample in chats {
            let roles: Vec<&str> =
                sample["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
            assert_eq!((roles[0], roles[1], *roles.last().unwrap()), ("system", "user", "assistant"), "{sample}");
            assert!(sample.get("query").is_none() && sample.get("target").is_none(), "{sample}");
        }
        assert_eq!(json(root.join(stage).join("model/spag-provenance.json"))["wordings"][0]["format"], "chat");
    }
    for game in json_lines(root.join("spag-1/episodes.jsonl")) {
        assert!(!game.to_string().contains("<|im"), "{game}");
    }

    // A run goes on in the format that it began with.
    let (_, err) = run(&mut chat_run(dir, &[]), 2);
    assert!(err.contains("prompt_format"), "{err}");
    let (_, err) = run(&mut chat_run(dir, &["prompt_format=\"jinja\""]), 2);
    assert!(err.contains("prompt_format") && err.contains("`plain` or `chat`"), "{err}");
}

#[test]
fn programs_warn_of_another_format_and_refuse_models_without_a_template() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    chatml_tiny(&dir.join("base"));
    fs::write(dir.join("words.txt"), "horse\n").unwrap();
    chat_prompts(dir, |_| ());
    let play = |model: &str, more: &[&str]| {
        let mut command = program("spag-play");
        command.current_dir(dir).env("RAYON_NUM_THREADS", "1");
        command.args(["--attacker_model_name_or_path", model, "--defender_model_name_or_path", model]);
        command.args(["--data_path", "words.txt", "--output_dir", "out", "--max_new_tokens", "4"]);
        command.args(["--prompts", "prompts.json"]).args(more);
        command
    };
    run(&mut play("base", &["--prompt_format", "chat"]), 0);
    let results = "out/llama_sampling_words_results.json";
    assert_eq!(json(dir.join(format!("{results}.provenance.json")))["wordings"][0]["format"], "chat");
    // Another format is another run.
    let (_, err) = run(&mut play("base", &[]), 2);
    assert!(err.contains("as chat"), "{err}");

    let mut games = json(dir.join(results));
    games[0]["history"] = serde_json::json!([
        {"role": "attacker", "content": "What is it?"}, {"role": "defender", "content": "A horse."},
    ]);
    fs::write(dir.join(results), games.to_string()).unwrap();
    let assign = |format: &str| {
        let mut command = program("spag-assign-rewards");
        command.current_dir(dir).args(["--input_data_path", results, "--output_data_path", "samples.json"]);
        command.args(["--prompts", "prompts.json", "--prompt_format", format]);
        command
    };
    let (_, err) = run(&mut assign("plain"), 0);
    assert!(err.contains("warning: ") && err.contains("as a chat"), "{err}");
    let (_, err) = run(&mut assign("chat"), 0);
    assert!(!err.contains("warning: "), "{err}");
    let train = |model: &str| {
        let mut command = program("spag-train");
        command.current_dir(dir).args(["--model_name_or_path", model, "--train_data_path", "samples.json"]);
        command.args(["--output_dir", "trained", "--overwrite_output_dir", "True", "--train_method", "SFT"]);
        command.args(["--max_length", "384", "--max_steps", "1", "--save_strategy", "no"]);
        command
    };
    run(&mut train("base"), 0);
    // The recorded format is used unless the flag says otherwise.
    let (_, err) = run(&mut play("trained", &["--data_suffix", "recorded"]), 0);
    assert!(err.contains("note: prompts have the wordings of prompts.json as a chat"), "{err}");
    let (_, err) = run(&mut play("trained", &["--data_suffix", "other", "--prompt_format", "plain"]), 0);
    assert!(err.contains("warning: ") && err.contains("as a chat"), "{err}");

    fs::remove_file(dir.join("base/chat_template.jinja")).unwrap();
    for command in [&mut train("base"), &mut play("base", &["--prompt_format", "chat", "--data_suffix", "bare"])] {
        let (_, err) = run(command, 2);
        assert!(err.contains("no chat template"), "{err}");
    }
}
