//! Games, samples and models record their wordings and seeds, and the programs warn where those do not fit together.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use spag_tests::{Serve, copy_folder, fixture, json, program, root, run};

const RESULTS: &str = "out/im_sampling_words_results.json";

/// A folder with a model, words and two files of wordings, `a.json` and `b.json`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    copy_folder(fixture("tiny-llama"), dir.join("base"));
    fs::write(dir.join("words.txt"), "horse\npiano\n").unwrap();
    fs::copy(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"), dir.join("a.json")).unwrap();
    fs::copy(root().join("configs/tiny-prompts.json"), dir.join("b.json")).unwrap();
    folder
}

fn command(dir: &Path, line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = program(words.next().unwrap());
    command.args(words).current_dir(dir).env("RAYON_NUM_THREADS", "2");
    command
}

/// The lines with warnings of a command that succeeds.
fn warnings(command: &mut Command) -> Vec<String> {
    let (_, err) = run(command, 0);
    err.lines().filter(|line| line.starts_with("warning: ")).map(str::to_owned).collect()
}

fn play(dir: &Path, model: &str, more: &str) -> Command {
    let line = format!(
        "spag-play --attacker_model_name_or_path {model} --defender_model_name_or_path {model} --model_prefix im \
         --data_path words.txt --output_dir out --max_new_tokens 4 --max_length 512 {more}"
    );
    let _ = fs::remove_dir_all(dir.join("out"));
    command(dir, &line)
}

/// Replaces the recorded games by ones that are decided.
fn decide(dir: &Path) {
    let mut games = json(dir.join(RESULTS));
    for game in games.as_array_mut().unwrap() {
        game["history"] = json!([
            {"role": "attacker", "content": "What is it?"},
            {"role": "defender", "content": format!("A {}.", game["target_word"].as_str().unwrap())},
        ]);
    }
    fs::write(dir.join(RESULTS), games.to_string()).unwrap();
}

const TRAIN: &str = "spag-train --model_name_or_path base --train_data_path samples.json --output_dir trained \
    --overwrite_output_dir True --train_method OfflinePO --lm_kl_coeff 0.2 --max_length 512 --max_steps 1 \
    --learning_rate 2e-6 --save_strategy no";

#[test]
fn chain_in_other_wordings_is_warned_of_once_a_program() {
    let folder = folder();
    let dir = folder.path();
    let digest = |file: &str| spag_io::sha256_file(dir.join(file)).unwrap();

    // Played with a, rewarded with b: one warning, which names both files.
    assert_eq!(warnings(&mut play(dir, "base", "--prompts a.json")), [""; 0]);
    let record = json(dir.join(format!("{RESULTS}.provenance.json")));
    assert_eq!(record["wordings"], json!([{"file": "a.json", "sha256": digest("a.json")}]));
    assert_eq!(record["games"][0]["seed"], 42);
    decide(dir);
    let assign = format!("spag-assign-rewards --input_data_path {RESULTS} --output_data_path samples.json");
    let found = warnings(&mut command(dir, &format!("{assign} --prompts b.json")));
    assert!(found.len() == 1 && found[0].contains("a.json") && found[0].contains("b.json"), "{found:?}");

    // The samples and the model trained on them have b.
    assert_eq!(warnings(&mut command(dir, TRAIN)), [""; 0]);
    for record in ["samples.json.provenance.json", "trained/spag-provenance.json"] {
        assert_eq!(json(dir.join(record))["wordings"][0]["sha256"], digest("b.json"), "{record}");
    }
    let found = warnings(&mut play(dir, "trained", "--seed 1 --prompts a.json"));
    assert!(found.len() == 1 && found[0].contains("a.json") && found[0].contains("b.json"), "{found:?}");
    assert_eq!(warnings(&mut play(dir, "trained", "--seed 1 --prompts b.json")), [""; 0]);

    // Trained with b, and further on samples in a.
    decide(dir);
    run(&mut command(dir, &format!("{assign} --prompts a.json")), 0);
    let further = TRAIN.replace("base", "trained").replace("--output_dir trained", "--output_dir further");
    let found = warnings(&mut command(dir, &further));
    assert!(found.len() == 1 && found[0].contains("a.json") && found[0].contains("b.json"), "{found:?}");
}

#[test]
fn variable_names_the_wordings_of_all_programs_and_a_flag_wins() {
    let folder = folder();
    let dir = folder.path();
    let wordings = |record: &str| json(dir.join(record))["wordings"][0]["file"].as_str().unwrap().to_owned();
    let results = format!("{RESULTS}.provenance.json");

    run(play(dir, "base", "").env("SPAG_PROMPTS", "a.json"), 0);
    assert_eq!(wordings(&results), "a.json");
    decide(dir);
    for (line, record) in [
        (format!("spag-assign-rewards --input_data_path {RESULTS} --output_data_path s.json"), "s.json"),
        (format!("spag data imitation --input_data_path {RESULTS} --output_data_path i.jsonl"), "i.jsonl"),
    ] {
        let record = format!("{record}.provenance.json");
        assert_eq!(warnings(command(dir, &line).env("SPAG_PROMPTS", "a.json")), [""; 0]);
        assert_eq!(wordings(&record), "a.json");
        run(command(dir, &format!("{line} --prompts b.json")).env("SPAG_PROMPTS", "a.json"), 0);
        assert_eq!(wordings(&record), "b.json");
        run(command(dir, &line).env("SPAG_PROMPTS", ""), 0);
        // Those that the games were played with.
        assert_eq!(wordings(&record), "a.json");
    }
    let (_, err) = run(play(dir, "base", "").env("SPAG_PROMPTS", "missing.json"), 2);
    assert!(err.contains("missing.json"), "{err}");
}

#[test]
fn seed_of_the_training_games_is_warned_of_once() {
    let folder = folder();
    let dir = folder.path();
    run(&mut play(dir, "base", "--prompts a.json --seed 7"), 0);
    decide(dir);
    let assign = "spag-assign-rewards --prompts a.json --output_data_path samples.json --input_data_path";
    run(&mut command(dir, &format!("{assign} {RESULTS}")), 0);
    run(&mut command(dir, TRAIN), 0);

    let found = warnings(&mut play(dir, "trained", "--prompts a.json --seed 7"));
    assert!(found.len() == 1 && found[0].contains("--seed 7") && found[0].contains("trained"), "{found:?}");
    for other in ["--seed 8", "--seed 7 --task_type testing --data_suffix t"] {
        assert_eq!(warnings(&mut play(dir, "trained", &format!("--prompts a.json {other}"))), [""; 0], "{other}");
    }
    fs::write(dir.join("words.txt"), "piano\nhorse\n").unwrap();
    assert_eq!(warnings(&mut play(dir, "trained", "--prompts a.json --seed 7")), [""; 0]);

    // A record that is damaged names itself.
    fs::write(dir.join("trained/spag-provenance.json"), "{").unwrap();
    let (_, err) = run(&mut play(dir, "trained", "--prompts a.json"), 2);
    assert!(err.contains("spag-provenance.json"), "{err}");
}

/// What a model says on the page of `spag serve`, and the notes and warnings of the server.
fn served(dir: &Path, arguments: &str) -> (String, Vec<String>) {
    let mut serve = command(dir, &format!("spag serve {arguments} --served_model_name m --port 0 --max_new_tokens 8"));
    let notes = dir.join("notes.txt");
    let server = Serve::start_command(serve.stderr(fs::File::create(&notes).unwrap()));
    let game = json!({
        "target_word": "horse", "max_turns": 2, "seed": 7, "players": {"attacker": "m", "defender": null}, "history": [],
    });
    let said = server.post("/page/turn", &game).events().pop().unwrap()["utterance"].as_str().unwrap().to_owned();
    (said, fs::read_to_string(notes).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn served_games_have_the_wordings_that_the_model_was_trained_with() {
    let folder = folder();
    let dir = folder.path();
    let elsewhere = tempfile::tempdir().unwrap();
    let record = dir.join("trained/spag-provenance.json");
    copy_folder(dir.join("base"), dir.join("trained"));
    let digest = spag_io::sha256_file(dir.join("b.json")).unwrap();
    let wordings = |format: &str| json!({"wordings": [{"file": "b.json", "sha256": digest, "format": format}]});
    fs::write(&record, wordings("plain").to_string()).unwrap();

    let (built_in, a) = (served(dir, "base").0, served(dir, "base --prompts a.json").0);
    let b = served(dir, "base --prompts b.json").0;
    assert!(built_in != b && a != b, "{built_in:?}, {a:?}, {b:?}");
    // Also from another folder than that in which the model was trained.
    let path = dir.join("trained").display().to_string();
    for (dir, model) in [(dir, "trained"), (elsewhere.path(), path.as_str())] {
        let (said, notes) = served(dir, model);
        assert_eq!(said, b);
        assert!(notes.len() == 1 && notes[0].starts_with("note: ") && notes[0].contains("b.json"), "{notes:?}");
    }
    // A flag wins, with a warning.
    let (said, notes) = served(dir, "trained --prompts a.json");
    assert_eq!(said, a);
    assert!(notes.len() == 1 && notes[0].starts_with("warning: ") && notes[0].contains("a.json"), "{notes:?}");
    // So it does if the file is another one now.
    fs::copy(dir.join("a.json"), dir.join("b.json")).unwrap();
    let (said, notes) = served(dir, "trained");
    assert_eq!(said, built_in);
    assert!(notes.len() == 1 && notes[0].starts_with("warning: ") && notes[0].contains("built-in"), "{notes:?}");
    // The format is recorded too: this model has no chat template.
    fs::write(&record, wordings("chat").to_string()).unwrap();
    let (_, err) = run(&mut command(dir, "spag serve trained --port 0"), 2);
    assert!(err.contains("--prompt_format chat") && err.contains("template"), "{err}");
}
