//! Invalid input gives an error that names file, row and cause, and exit code 2.

use std::fs;
use std::path::Path;

use spag_tests::{copy_folder, fixture, json, program, root, run};
use tempfile::TempDir;

/// Runs a program that must reject its input with an error that contains all of `words`.
fn rejected(name: &str, arguments: &[&str], dir: &Path, words: &[&str]) {
    let (_, err) = run(program(name).current_dir(dir).args(arguments), 2);
    for word in words {
        assert!(err.contains(word), "{name} {arguments:?} should say {word:?}:\n{err}");
    }
    assert!(err.starts_with("error:") || err.contains("\nerror:"), "{err}");
}

fn credit(input: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("in.json"), input).unwrap();
    fs::write(dir.join("out.json"), "kept").unwrap();
    let mut all = vec!["in.json"];
    all.extend(words);
    rejected("spag-assign-rewards", &["--input_data_path", "in.json", "--output_data_path", "out.json"], dir, &all);
    assert_eq!(fs::read_to_string(dir.join("out.json")).unwrap(), "kept", "nothing is overwritten by a failed run");
}

const GOOD: &str = r#"{"history": [{"role": "attacker", "content": "a"}], "target_word": "cat", "max_turns": 5}"#;

#[test]
fn invalid_episodes_are_rejected() {
    credit(&format!("[{GOOD}, {{\"history\": ["), &["row 2"]);
    credit(&format!("[{GOOD}, {GOOD}"), &["cut off"]);
    credit(&format!("{GOOD}\n{{\"target_word\": 3}}\n"), &["row 2"]);
    credit(r#"[{"history": "none", "target_word": "cat", "max_turns": 5}]"#, &["row 1", "history"]);
    credit(r#"[{"history": [{"role": "defender", "content": "a"}], "target_word": "cat"}]"#, &["row 1", "attacker"]);
    credit(r#"[{"history": [{"role": "umpire", "content": "a"}], "target_word": "cat"}]"#, &["row 1", "umpire"]);
    credit(r#"[{"history": [], "target_word": "", "max_turns": 5}]"#, &["row 1", "empty"]);
    credit("[1, 2]", &["row 1"]);
    credit("{]", &["row 1"]);
}

#[test]
fn target_word_with_special_characters_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let episode = r#"[{"history": [{"role": "attacker", "content": "Go on."}, {"role": "defender", "content": "(a+)[\\"}],
        "target_word": "(a+)[\\", "max_turns": 5}]"#;
    fs::write(dir.join("in.json"), episode).unwrap();
    let arguments =
        ["--input_data_path", "in.json", "--output_data_path", "out.json", "--outcomes_path", "outcomes.jsonl"];
    run(program("spag-assign-rewards").current_dir(dir).args(arguments), 0);
    assert!(fs::read_to_string(dir.join("outcomes.jsonl")).unwrap().contains("attacker wins"));
}

#[test]
fn invalid_flags_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    rejected("spag-train", &["--lm_kl_coef", "0.1"], dir.path(), &["lm_kl_coef", "lm_kl_coeff"]);
    rejected("spag-train", &["--learning-rate", "fast"], dir.path(), &["fast"]);
    rejected("spag-play", &["--taboo_max_turn", "5"], dir.path(), &["taboo_max_turns"]);
    rejected(
        "spag-assign-rewards",
        &["--input_data_path", "missing.json", "--output_data_path", "o.json"],
        dir.path(),
        &["missing.json"],
    );
    rejected("spag", &["runn"], dir.path(), &["runn"]);
}

#[test]
fn unusable_devices_are_rejected_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let train = ["--model_name_or_path", "missing", "--train_data_path", "d", "--output_dir", "out"];
    let play = ["--attacker_model_name_or_path", "missing", "--defender_model_name_or_path", "missing"];
    let play = [&play[..], &["--data_path", "words.txt", "--output_dir", "out"]].concat();
    let generate = ["generate", "--model", "missing", "--input", "in.jsonl", "--output", "out.jsonl"];
    let bench = ["bench", "train", "--model_name_or_path", "missing"];
    let arena = ["arena", "--players", "A=missing", "B=missing", "--words", "words.txt"];
    fs::write(dir.join("words.txt"), "horse\n").unwrap();
    fs::write(dir.join("d"), r#"[{"query": "a", "target": "b"}]"#).unwrap();
    copy_model(&dir.join("model"));
    let commands: [(&str, &[&str]); 5] =
        [("spag-train", &train), ("spag-play", &play), ("spag", &generate), ("spag", &bench), ("spag", &arena)];
    for (name, arguments) in commands {
        let with = |device| [arguments, &["--device", device]].concat();
        rejected(name, &with("gpu"), dir, &["gpu", "auto, cpu, cuda or cuda:N"]);
        if cfg!(not(feature = "cuda")) {
            let there: Vec<String> = with("cuda:1").iter().map(|text| text.replace("missing", "model")).collect();
            let there: Vec<&str> = there.iter().map(String::as_str).collect();
            rejected(name, &there, dir, &["device cuda:1", "built without the feature `cuda`", "docs/CUDA.md"]);
        }
    }
    rejected(
        "spag-train",
        &[&train[..], &["--offload_optimizer", "nvme"]].concat(),
        dir,
        &["nvme", "auto, none or cpu"],
    );
    let tiny = root().join("configs/tiny.toml");
    let run = ["run", &tiny.to_string_lossy(), "--set", "device=cuda:0", "--set", "run_dir=run"];
    if cfg!(not(feature = "cuda")) {
        rejected("spag", &run, dir, &["device cuda:0", "docs/CUDA.md"]);
        assert!(!dir.join("run").exists());
    }
    assert!(!dir.join("out").exists(), "nothing is written");
}

fn copy_model(to: &Path) {
    copy_folder(fixture("tiny-llama"), to);
}

fn generate(dir: &Path, words: &[&str]) {
    fs::write(dir.join("in.jsonl"), "{\"prompt\": \"Hello\"}\n").unwrap();
    let arguments =
        ["generate", "--model", "model", "--input", "in.jsonl", "--output", "out.jsonl", "--max_new_tokens", "4"];
    rejected("spag", &arguments, dir, words);
}

#[test]
fn invalid_checkpoints_are_rejected() {
    for (change, words) in [
        ("no config", vec!["config.json"]),
        ("broken config", vec!["config.json"]),
        ("another size", vec!["lm_head.weight", "[1000, 64]", "[1000, 32]"]),
        ("more layers", vec!["missing", "layers.3"]),
        ("truncated weights", vec!["model.safetensors"]),
        ("no weights", vec!["model.safetensors"]),
        ("no tokenizer", vec!["tokenizer.json"]),
        ("no eos", vec!["eos_token"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        copy_model(&model);
        let config = fs::read_to_string(model.join("config.json")).unwrap();
        let weights = fs::read(model.join("model.safetensors")).unwrap();
        match change {
            "no config" => fs::remove_file(model.join("config.json")).unwrap(),
            "broken config" => fs::write(model.join("config.json"), &config[..100]).unwrap(),
            "another size" => {
                fs::write(model.join("config.json"), config.replace("\"hidden_size\": 64", "\"hidden_size\": 32"))
                    .unwrap();
            }
            "more layers" => {
                let more = config.replace("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4");
                fs::write(model.join("config.json"), more).unwrap();
            }
            "truncated weights" => fs::write(model.join("model.safetensors"), &weights[..weights.len() / 2]).unwrap(),
            "no weights" => fs::remove_file(model.join("model.safetensors")).unwrap(),
            "no tokenizer" => {
                for file in ["tokenizer.json", "tokenizer.model"] {
                    fs::remove_file(model.join(file)).unwrap();
                }
            }
            _ => {
                // A tokenizer and configuration without an EOS token.
                for file in ["tokenizer_config.json", "special_tokens_map.json"] {
                    fs::remove_file(model.join(file)).unwrap();
                }
                let tokenizer = fs::read_to_string(model.join("tokenizer.json")).unwrap();
                fs::write(model.join("tokenizer.json"), tokenizer.replace("</s>", "<end>")).unwrap();
                fs::write(model.join("config.json"), config.replace("\"eos_token_id\": 2,", "")).unwrap();
            }
        }
        generate(folder.path(), &words);
    }
}

#[test]
fn invalid_deepspeed_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    copy_model(&dir.join("model"));
    fs::write(dir.join("data.json"), r#"[{"query": "a", "target": "b"}]"#).unwrap();
    let train = |file: &str, words: &[&str]| {
        fs::write(dir.join("zero.json"), file).unwrap();
        let arguments = [
            "--model_name_or_path",
            "model",
            "--train_data_path",
            "data.json",
            "--output_dir",
            "out",
            "--deepspeed",
            "zero.json",
            "--learning_rate",
            "1e-4",
            "--bf16",
            "True",
        ];
        rejected("spag-train", &arguments, dir, words);
        assert!(!dir.join("out/model.safetensors").exists());
    };
    train("{\n  \"zero_optimization\": {", &["zero.json", "line 2"]);
    train("[1]", &["zero.json"]);
    // All problems are reported together.
    train(
        r#"{"optimizer": {"type": "AdamW", "params": {"lr": 2e-4, "bettas": 1}}, "bf16": {"enabled": false}}"#,
        &["optimizer.params.lr", "--learning_rate", "0.0001", "bf16.enabled", "bettas", "optimizer.params.betas"],
    );
    train(r#"{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}"#, &["offload_param", "nvme"]);
    train(r#"{"zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}}"#, &["offload_param", "stage"]);
}

#[test]
fn invalid_configurations_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    rejected("spag", &["run", "missing.toml"], dir, &["missing.toml"]);
    let tiny = fs::read_to_string(root().join("configs/tiny.toml")).unwrap();
    fs::write(dir.join("unknown.toml"), format!("sead = 1\n{tiny}")).unwrap();
    rejected("spag", &["run", "unknown.toml"], dir, &["sead", "seed"]);
    fs::write(dir.join("type.toml"), tiny.replace("games = 2400", "games = \"many\"")).unwrap();
    rejected("spag", &["run", "type.toml"], dir, &["games"]);
    rejected(
        "spag",
        &["run", &root().join("configs/tiny.toml").to_string_lossy(), "--set", "self_play.gmaes=3"],
        dir,
        &["gmaes", "games"],
    );
    rejected(
        "spag",
        &["run", &root().join("configs/tiny.toml").to_string_lossy(), "--set", "extends=tiny.toml"],
        dir,
        &["--set extends=tiny.toml", "configuration file only"],
    );
}

/// Runs `spag-play` with the model and the words of a folder, which must be rejected before a game is played.
fn play(dir: &Path, flags: &[&str], words: &[&str]) {
    let mut arguments = vec!["--attacker_model_name_or_path", "model", "--defender_model_name_or_path", "model"];
    arguments.extend(["--data_path", "words.txt", "--output_dir", "out", "--task_type", "testing"]);
    arguments.extend(flags);
    rejected("spag-play", &arguments, dir, words);
    assert!(!dir.join("out/llama_testing_words_results.json").exists());
    let record = fs::read(dir.join("out/llama_testing_words_rank0.jsonl")).unwrap_or_default();
    assert!(record.is_empty(), "nothing is played");
}

#[test]
fn invalid_word_lists_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    copy_model(&dir.join("model"));
    let long = format!("horse\n{}\n", "x".repeat(10_000));
    for (bytes, words) in [
        (&b"horse\n\xff\xfe\n"[..], ["line 2", "UTF-8"]),
        (b"", ["line 1", "no words"]),
        (long.as_bytes(), ["line 2", "more than 200 characters"]),
    ] {
        fs::write(dir.join("words.txt"), bytes).unwrap();
        play(dir, &["--max_length", "512", "--max_new_tokens", "4"], &[&["words.txt"], &words[..]].concat());
    }
}

/// A folder whose model has no token with a role, and a list of one word.
fn without_special_token(token: &str, role: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    copy_model(&model);
    fs::write(folder.path().join("words.txt"), "horse\n").unwrap();
    for file in ["tokenizer_config.json", "special_tokens_map.json", "generation_config.json"] {
        let _ = fs::remove_file(model.join(file));
    }
    let change = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(model.join(file)).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        fs::write(model.join(file), text.replace(from, to)).unwrap();
    };
    change("tokenizer.json", token, "<other>");
    change("config.json", &format!("\"{role}_id\""), "\"nothing\"");
    folder
}

#[test]
fn models_without_eos_cannot_play() {
    let folder = without_special_token("</s>", "eos_token");
    play(folder.path(), &["--max_new_tokens", "4"], &["model/tokenizer.json", "eos_token"]);
}

#[test]
fn models_without_bos_play() {
    let folder = without_special_token("<s>", "bos_token");
    let mut command = program("spag-play");
    command.current_dir(folder.path()).args(["--attacker_model_name_or_path", "model"]);
    command.args(["--defender_model_name_or_path", "model", "--data_path", "words.txt", "--output_dir", "out"]);
    run(command.args(["--task_type", "testing", "--max_new_tokens", "4", "--taboo_max_turns", "1"]), 0);
    assert_eq!(json(folder.path().join("out/llama_testing_words_results.json")).as_array().unwrap().len(), 1);
}

#[test]
fn contexts_too_short_for_the_game_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, model) = (folder.path(), folder.path().join("model"));
    copy_model(&model);
    fs::write(dir.join("words.txt"), "cat\nhippopotamus\nhorse\n").unwrap();
    play(dir, &["--max_new_tokens", "512"], &["--max_new_tokens 512", "model has room for 512 tokens"]);
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let short = config.replace("\"max_position_embeddings\": 512", "\"max_position_embeddings\": 128");
    assert_ne!(short, config);
    fs::write(model.join("config.json"), short).unwrap();
    let words = ["model: the attacker's first prompt", "hippopotamus", "utterance up to 4", "room for 128 in all"];
    play(dir, &["--max_new_tokens", "4"], &words);
    // A context that is long enough is played, as is a prompt that only --max_length cuts.
    fs::write(model.join("config.json"), config).unwrap();
    let played = |name: &str, flags: &[&str]| {
        let mut command = program("spag-play");
        let players = ["--attacker_model_name_or_path", "model", "--defender_model_name_or_path", "model"];
        command.current_dir(dir).args(players).args(["--data_path", "words.txt", "--output_dir", name]);
        run(command.args(["--taboo_max_turns", "1"]).args(flags), 0).1
    };
    assert!(!played("whole", &["--max_new_tokens", "4"]).contains("loses"));
    let said = played("cut", &["--max_new_tokens", "200", "--max_length", "100"]);
    assert!(said.contains("note: --max_length: the attacker's first prompt has"), "{said}");
    assert!(!said.contains("--max_new_tokens"), "{said}");
}

#[test]
fn unwritable_output_folder_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    copy_model(&dir.join("model"));
    // A file in place of a folder is unwritable even for root.
    fs::write(dir.join("taken"), "").unwrap();
    fs::write(dir.join("data.json"), r#"[{"query": "a", "target": "b"}]"#).unwrap();
    let arguments = ["--model_name_or_path", "model", "--train_data_path", "data.json", "--output_dir", "taken/out"];
    let (_, err) = {
        let output = program("spag-train").current_dir(dir).args(arguments).output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
        (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(err.contains("taken"), "{err}");
}
