//! Programs on checkpoints that are damaged, or were made to do harm: one message, the right exit code, little memory.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_tests::{change_tensor, copy_folder, fixture, program, run};
use tempfile::TempDir;

/// A folder with a copy of the fixture in `model`, one of whose JSON files is changed, and prompts.
fn changed(file: &str, change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), folder.path().join("model"));
    fs::write(folder.path().join("in.jsonl"), "{\"prompt\": \"a horse\"}\n").unwrap();
    fs::write(folder.path().join("data.json"), r#"[{"query": "a", "target": "b"}]"#).unwrap();
    let path = folder.path().join("model").join(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(&path, json.to_string()).unwrap();
    folder
}

/// The message of `spag generate`, which is one line after those that show progress.
fn generate(folder: &Path, flags: &[&str]) -> String {
    let mut command = program("spag");
    command.current_dir(folder).args(["generate", "--model", "model", "--input", "in.jsonl", "--output", "out.jsonl"]);
    // With a backtrace, too, only the error is reported.
    let (_, err) = run(command.args(["--max_new_tokens", "4"]).args(flags).env("RUST_BACKTRACE", "1"), 2);
    let messages: Vec<&str> = err.lines().filter(|line| !line.starts_with("generate: ")).collect();
    let [message] = messages[..] else { panic!("{err}") };
    assert!(message.starts_with("error: ") && !message.contains("fault in this program"), "{err}");
    message.to_owned()
}

#[test]
fn panic_of_the_tokenizers_library_is_one_error_with_the_file() {
    // A trie of one unit, whose offset points beyond it.
    let charsmap = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP///39hAA=="});
    let folder = changed("tokenizer.json", |json| json["normalizer"] = charsmap);
    let error = generate(folder.path(), &[]);
    assert!(error.contains("model/tokenizer.json") && error.contains("cannot encode a text"), "{error}");
}

#[test]
fn settings_beyond_the_free_memory_are_refused() {
    let folder = changed("config.json", |_| ());
    for flags in [
        &["--kv_cache_gib", "50000"][..],
        &["--kv_cache_gib", "1e300"],
        &["--page_size", "18446744073709551615"],
        &["--max_step_tokens", "18446744073709551615"],
        &["--per_device_eval_batch_size", "9223372036854775807"],
    ] {
        let mut command = program("spag");
        command.current_dir(folder.path()).args(["generate", "--model", "model", "--input", "in.jsonl"]);
        let (_, err) = run(command.args(["--output", "out.jsonl"]).args(flags), 2);
        assert!(err.contains(flags[0]), "{flags:?}: {err}");
    }
}

#[test]
fn sizes_beyond_the_weights_are_refused_by_every_program() {
    for (key, value) in [
        ("num_hidden_layers", 1_u64 << 31),
        ("hidden_size", 1 << 30),
        ("vocab_size", 1 << 31),
        ("num_hidden_layers", 1),
    ] {
        let folder = changed("config.json", |json| json[key] = json!(value));
        let error = generate(folder.path(), &[]);
        assert!(error.contains("model"), "{error}");
        let mut train = program("spag-train");
        train.current_dir(folder.path()).args(["--model_name_or_path", "model", "--train_data_path", "data.json"]);
        let (_, err) = run(train.args(["--output_dir", "out"]), 2);
        assert!(err.contains("model"), "{err}");
    }
    let folder = changed("config.json", |json| json["max_position_embeddings"] = json!(1_u64 << 31));
    assert!(generate(folder.path(), &[]).contains("--max_length"));
    let mut command = program("spag");
    command.current_dir(folder.path()).args(["generate", "--model", "model", "--input", "in.jsonl"]);
    run(command.args(["--output", "out.jsonl", "--max_length", "512", "--max_new_tokens", "4"]), 0);
}

#[test]
fn model_that_does_not_fit_on_the_disk_is_not_begun() {
    let folder = changed("config.json", |json| {
        json["hidden_size"] = json!(1 << 20);
        json["intermediate_size"] = json!(1 << 20);
    });
    let mut init = program("spag");
    init.current_dir(folder.path()).args(["init-model", "--config", "model/config.json", "--output_dir", "new"]);
    let (_, err) = run(&mut init, 2);
    assert!(err.contains("GiB") && !folder.path().join("new").exists(), "{err}");
}

#[test]
fn model_whose_logits_overflow_is_named_as_bad_input() {
    let folder = changed("config.json", |_| ());
    change_tensor(folder.path().join("model"), "model.norm.weight", |weights, _| weights.fill(f32::MAX));
    fs::write(folder.path().join("words.txt"), "horse\n").unwrap();
    let mut command = program("spag-play");
    command.current_dir(folder.path()).args(["--attacker_model_name_or_path", "model", "--data_path", "words.txt"]);
    command.args(["--defender_model_name_or_path", "model", "--output_dir", "out", "--max_new_tokens", "2"]);
    let (_, err) = run(&mut command, 2);
    assert!(err.contains("model: the model's logits are not finite"), "{err}");
    // A model that fails every prompt is not the fault of a row.
    assert!(generate(folder.path(), &[]).contains("model: the model's logits are not finite"));
}
