//! The programs that need a checkpoint, on the tiny one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use spag_tests::{fixture, json, json_lines, program, run};

fn tiny() -> PathBuf {
    fixture("tiny-llama")
}

#[test]
fn generation_equals_the_reference_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let cases = json(fixture("generate.json"));
    let cases = cases.as_array().or_else(|| cases["cases"].as_array()).unwrap();
    let prompts: Vec<String> =
        cases.iter().map(|case| json!({"prompt": case["prompt"], "id": 1}).to_string()).collect();
    fs::write(folder.path().join("in.jsonl"), prompts.join("\n")).unwrap();
    let flags = ["--input", "in.jsonl", "--output", "out.jsonl", "--max_new_tokens", "48", "--task_type", "testing"];
    let mut command = program("spag");
    run(command.current_dir(folder.path()).args(["generate", "--model"]).arg(tiny()).args(flags), 0);
    let rows = json_lines(folder.path().join("out.jsonl"));
    assert_eq!(rows.len(), cases.len());
    for (row, case) in rows.iter().zip(cases) {
        let keys: Vec<_> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["prompt", "output_ids", "text", "finish", "cut_tokens"]);
        assert_eq!(row["prompt"], case["prompt"]);
        assert_eq!(row["output_ids"], case["output_ids"]);
    }
}

#[test]
fn generation_writes_log_probabilities_and_stops_at_stop_strings() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.jsonl"), "{\"prompt\": \"a horse\"}\n".repeat(3)).unwrap();
    let generate = |out: &str, flags: &[&str]| {
        let mut command = program("spag");
        command.current_dir(folder.path()).args(["generate", "--model"]).arg(tiny());
        command.args(["--input", "in.jsonl", "--max_new_tokens", "32", "--min_new_tokens", "32", "--output", out]);
        run(command.args(flags), 0);
        json_lines(folder.path().join(out))
    };
    let plain = generate("plain.jsonl", &["--log_probs"]);
    for row in &plain {
        for key in ["model_log_probs", "sampling_log_probs"] {
            let values = row[key].as_array().unwrap();
            assert_eq!(values.len(), 32);
            assert!(values.iter().all(|value| value.as_f64().unwrap() <= 0.0), "{key}");
        }
        assert_ne!(row["model_log_probs"], row["sampling_log_probs"], "drawn at 1.2");
    }
    assert_ne!(plain[0]["text"], plain[1]["text"], "each prompt has its own seed");
    let small = ["--log_probs", "--page_size", "3", "--per_device_eval_batch_size", "2", "--prefix_sharing", "False"];
    let texts = |rows: &[Value]| rows.iter().map(|row| row["text"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(&generate("small.jsonl", &small)), texts(&plain));

    let text = plain[0]["text"].as_str().unwrap();
    let stop: String = text.chars().skip(6).take(4).collect();
    let stopped = &generate("stopped.jsonl", &["--stop", &stop])[0];
    assert_eq!(stopped["finish"], "stop_string");
    assert_eq!(stopped["text"].as_str().unwrap(), &text[..text.find(&stop).unwrap()]);
}

#[test]
fn generation_names_an_invalid_row() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.jsonl"), "{\"prompt\": \"a\"}\n\n{\"text\": \"a\"}\n").unwrap();
    let mut command = program("spag");
    command.current_dir(folder.path()).args(["generate", "--model"]).arg(tiny());
    let (_, err) = run(command.args(["--input", "in.jsonl", "--output", "out.jsonl"]), 2);
    assert!(err.contains("in.jsonl: row 3") && err.contains("prompt"), "{err}");
}

#[test]
fn random_checkpoint_depends_on_its_seed() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, flags: &[&str]| {
        let mut command = program("spag");
        command.current_dir(folder.path()).args(["init-model", "--config"]).arg(tiny().join("config.json"));
        run(command.args(["--output_dir", name]).args(flags), 0);
        fs::read(folder.path().join(name).join("model.safetensors")).unwrap()
    };
    let first = make("a", &["--seed", "1"]);
    assert!(first == make("b", &["--seed", "1"]) && first != make("c", &["--seed", "2"]));
    let half = make("d", &["--seed", "1", "--dtype", "bf16"]);
    assert!(half.len() < first.len() * 6 / 10);
    assert_eq!(json(folder.path().join("d/config.json"))["torch_dtype"], "bfloat16");
    for file in ["config.json", "tokenizer.json"] {
        assert!(folder.path().join("a").join(file).is_file(), "{file}");
    }
}

#[test]
fn random_checkpoint_takes_its_tokenizer_from_a_file_or_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let pieces = fixture("families/llama2-bin");
    fs::create_dir(dir.join("beside")).unwrap();
    for (source, to) in
        [(tiny(), "config.json"), (tiny(), "beside/config.json"), (pieces.clone(), "beside/tokenizer.model")]
    {
        fs::copy(source.join(Path::new(to).file_name().unwrap()), dir.join(to)).unwrap();
    }
    let make = |config: &str, tokenizer: Option<&Path>| {
        let mut command = program("spag");
        command.current_dir(dir).args(["init-model", "--output_dir", "made", "--config", config]);
        run(command.args(tokenizer.into_iter().flat_map(|path| [Path::new("--tokenizer"), path])), 0);
        let names =
            fs::read_dir(dir.join("made")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names: Vec<String> = names.filter(|name| name.starts_with("tokenizer.")).collect();
        fs::remove_dir_all(dir.join("made")).unwrap();
        names
    };
    assert_eq!(make("config.json", None), Vec::<String>::new());
    for (config, tokenizer) in [
        ("beside/config.json", None),
        ("config.json", Some(pieces.clone())),
        ("config.json", Some(pieces.join("tokenizer.model"))),
        // Beside a tokenizer.json, which would be used in its place.
        ("config.json", Some(tiny().join("tokenizer.model"))),
    ] {
        assert_eq!(make(config, tokenizer.as_deref()), ["tokenizer.model"], "{config} {tokenizer:?}");
    }
}

fn play(dir: &Path, flags: &[&str]) -> Command {
    let mut command = program("spag-play");
    command.current_dir(dir).arg("--attacker_model_name_or_path").arg(tiny());
    command.arg("--defender_model_name_or_path").arg(tiny());
    command.args(["--model_prefix", "im", "--data_path", "words.txt", "--output_dir", "out", "--max_new_tokens", "8"]);
    command.args(["--data_suffix", "few"]).args(flags);
    command
}

#[test]
fn same_command_resumes_a_stopped_run_of_games() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("words.txt"), "apple\nriver\nchair\n").unwrap();
    let (record, results) =
        (folder.path().join("out/im_sampling_few_rank0.jsonl"), folder.path().join("out/im_sampling_few_results.json"));
    let flags = ["--games_per_word", "2", "--taboo_max_turns", "2"];
    run(&mut play(folder.path(), &flags), 0);
    let (games, whole) = (json(&results), fs::read(&results).unwrap());
    let words = games.as_array().unwrap().iter().map(|game| game["target_word"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(words, ["apple", "apple", "river", "river", "chair", "chair"]);
    for (number, game) in games.as_array().unwrap().iter().enumerate() {
        assert_eq!((&game["game"], game["history"].as_array().unwrap().len()), (&json!(number), 4));
    }

    // Killed in the middle of the third game's line.
    let lines = fs::read_to_string(&record).unwrap();
    let third = lines.match_indices('\n').nth(1).unwrap().0 + 40;
    fs::write(&record, &lines[..third]).unwrap();
    fs::remove_file(&results).unwrap();
    let (_, err) = run(&mut play(folder.path(), &[&flags[..], &["--per_device_eval_batch_size", "1"]].concat()), 0);
    assert!(err.contains("2 of 6 games"), "{err}");
    assert_eq!(fs::read(&results).unwrap(), whole);

    // A run with another seed does not resume the record.
    let (_, err) = run(&mut play(folder.path(), &[&flags[..], &["--seed", "1"]].concat()), 2);
    assert!(err.contains("im_sampling_few_rank0.jsonl: row 1"), "{err}");
}

#[test]
fn rank_out_of_range_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("words.txt"), "apple\n").unwrap();
    fs::write(folder.path().join("data.json"), r#"[{"query": "a", "target": "b"}]"#).unwrap();
    let mut train = program("spag-train");
    train.current_dir(folder.path()).arg("--model_name_or_path").arg(tiny());
    train.args(["--train_data_path", "data.json", "--output_dir", "trained"]);
    for mut program in [train, play(folder.path(), &[])] {
        let (_, err) = run(program.envs([("RANK", "2"), ("WORLD_SIZE", "2")]), 2);
        assert!(err.contains("RANK is 2") && err.contains("WORLD_SIZE is 2"), "{err}");
    }
}

#[test]
fn max_length_is_limited_to_the_context_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data.json"), r#"[{"query": "a", "target": "b"}]"#).unwrap();
    let mut command = program("spag-train");
    command.current_dir(folder.path()).arg("--model_name_or_path").arg(tiny());
    command.args(["--train-data-path", "data.json", "data.json", "--output_dir", "o", "--max_length", "2048"]);
    let (out, err) = run(command.args(["--num_train_epochs", "1", "--lr_scheduler_type", "constant", "--tf32"]), 0);
    assert!(err.contains("--max_length 512") && err.contains("--tf32 ("), "{err}");
    assert!(out.contains("1 steps") && folder.path().join("o/model.safetensors").is_file(), "{out}");
}

#[test]
fn bench_train_prints_the_keys_of_the_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny().join("config.json");
    let model = folder.path().join("model");
    let mut init = program("spag");
    init.args(["init-model", "--config"]).arg(folder.path().join("alone.json")).arg("--output_dir").arg(&model);
    fs::copy(config, folder.path().join("alone.json")).unwrap();
    let (out, _) = run(&mut init, 0);
    assert!(out.contains("without a tokenizer"), "{out}");
    for flags in [&[][..], &["--ref"], &["--checkpointing", "--dtype", "bfloat16"]] {
        let mut bench = program("spag");
        bench.args(["bench", "train", "--model_name_or_path"]).arg(&model);
        bench.args(["--batch", "2", "--seq", "16", "--steps", "2", "--warmup", "1"]).args(flags);
        let (line, _) = run(&mut bench, 0);
        let row: Value = serde_json::from_str(&line).unwrap();
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        let wanted = [
            "what",
            "variant",
            "params",
            "seconds",
            "tokens_per_s",
            "model_tflops",
            "peak_gib",
            "kernels_per_step",
            "products_per_step",
            "card",
            "loss",
            "checkpoint",
            "device",
            "dtype",
            "batch",
            "seq",
            "steps",
            "warmup",
            "threads",
            "ref",
            "checkpointing",
            // The baseline has none of these.
            "kept_blocks",
            "accumulation",
            "ranks",
            "zero_stage",
            "shard_within",
            "offload_optimizer",
            "offload_param",
            "optim_grad_dtype",
            "bytes_sent_per_step",
            "bytes_sent_between_hosts_per_step",
            "cpu_path",
            "simulated",
        ];
        assert_eq!(keys, wanted);
        assert_eq!(row["what"], "spag train step");
        // The loss of random weights is that of guessing.
        assert!((row["loss"].as_f64().unwrap() - 1000f64.ln()).abs() < 0.5, "{line}");
        assert!(row["seconds"].as_f64().unwrap() > 0.0 && row["params"] == 276_672);
    }
}

/// The keys that the comparison with transformers reads.
#[test]
fn bench_play_prints_its_settings_and_work() {
    let mut command = program("spag");
    command.args(["bench", "play", "--model"]).arg(tiny()).args(["--games", "3", "--turns", "2", "--new_tokens", "5"]);
    let (out, _) = run(command.args(["--per_device_eval_batch_size", "2", "--threads", "1"]), 0);
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(line["what"], "spag self-play");
    for (key, value) in [("games", 3), ("batch", 2), ("turns", 2), ("new_tokens", 5), ("threads", 1)] {
        assert_eq!(line[key], value, "{key}");
    }
    let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
    let (seconds, games, tokens) = (number("seconds"), number("games_per_s"), number("generated_tokens_per_s"));
    assert!((tokens / games - 20.0).abs() < 0.5, "4 utterances of 5 tokens a game: {tokens} / {games}");
    assert!((games * seconds - 3.0).abs() < 0.2, "{games} in {seconds}");
    assert!(number("hit_rate") > 0.5 && number("computed_tokens") >= 60.0, "{line}");
}
