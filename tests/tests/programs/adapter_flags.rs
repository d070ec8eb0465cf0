//! `--adapter` beside `--model`: programs compute what they compute with the sum that `spag merge` writes, and refuse adapters for
//! other models.

use std::fs;
use std::path::Path;

use spag_tests::{fixture, json, json_lines, program, root, run};

fn merged(folder: &Path) -> std::path::PathBuf {
    let sum = folder.join("sum");
    let mut command = program("spag");
    command.arg("merge").arg("--model").arg(fixture("tiny-llama")).arg("--adapter").arg(fixture("peft/patterns"));
    run(command.arg("--output_dir").arg(&sum), 0);
    sum
}

#[test]
fn adapters_generate_as_their_sums() {
    let folder = tempfile::tempdir().unwrap();
    let sum = merged(folder.path());
    let prompts = folder.path().join("prompts.jsonl");
    fs::write(&prompts, "{\"prompt\": \"Let us play\"}\n{\"prompt\": \"a horse\"}\n").unwrap();
    let generate = |model: &Path, flags: &[&Path]| {
        let output = folder.path().join("out.jsonl");
        let mut command = program("spag");
        command.args(["generate", "--log_probs", "--max_new_tokens", "20", "--model"]).arg(model).args(flags);
        run(command.arg("--input").arg(&prompts).arg("--output").arg(&output), 0);
        json_lines(output)
    };
    let base = fixture("tiny-llama");
    let adapted = generate(&base, &[Path::new("--adapter"), &fixture("peft/patterns")]);
    assert_eq!(adapted, generate(&sum, &[]));
    assert_ne!(adapted, generate(&base, &[]));
}

#[test]
fn adapters_are_evaluated_beside_their_model() {
    let folder = tempfile::tempdir().unwrap();
    let (sum, base, out) = (merged(folder.path()), fixture("tiny-llama"), folder.path().join("out"));
    let eval = |adapter: &str| {
        let mut command = program("spag");
        command.args(["eval", "--tasks", "tiny", "--limit", "3", "--names", "base", "adapted", "sum", "--output_dir"]);
        command.arg(&out).arg("--model").args([&base, &base, &sum]).args(["--adapter", "none", adapter, "none"]);
        command
    };
    run(&mut eval(fixture("peft/patterns").to_str().unwrap()), 0);
    let results = json(out.join("results.json"));
    let [base, adapted, sum] = ["base", "adapted", "sum"].map(|name| results["models"][name]["results"].clone());
    assert!(adapted.is_object() && adapted == sum && adapted != base, "{adapted} {sum} {base}");
    // Records of another adapter are not continued.
    let (_, err) = run(&mut eval(fixture("peft/attention").to_str().unwrap()), 2);
    assert!(err.contains("with adapter"), "{err}");
    let mut one = eval("none");
    let (_, err) = run(one.args(["--adapter", "none"]), 2);
    assert!(err.contains("4 adapters for 3 models"), "{err}");
}

#[test]
fn players_have_their_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let (model, adapter) = (fixture("tiny-llama"), fixture("peft/patterns"));
    let (model, adapter) = (model.to_str().unwrap(), adapter.to_str().unwrap());
    fs::write(folder.path().join("words.txt"), "bear\nfrog\n").unwrap();
    let arena = |flags: &[&str]| {
        let mut command = program("spag");
        command.current_dir(folder.path()).args(["arena", "--words", "words.txt", "--games", "2"]);
        command.args(["--taboo_max_turns", "1", "--max_new_tokens", "4", "--max_length", "400"]).args(flags);
        command.args(["--players", &format!("base={model}"), &format!("adapted={model}")]);
        command
    };
    run(&mut arena(&["--adapter", &format!("adapted={adapter}")]), 0);
    // The records say who played.
    let (_, err) = run(&mut arena(&[]), 2);
    assert!(err.contains("with adapter"), "{err}");
    for (flag, said) in [(format!("nobody={adapter}"), "no player has this name"), (adapter.to_owned(), "NAME=DIR")] {
        let (_, err) = run(&mut arena(&["--adapter", &flag]), 2);
        assert!(err.contains(said), "{err}");
    }
    let play = |flags: &[&str], code: i32| {
        let mut command = program("spag-play");
        command.current_dir(folder.path()).args(["--data_path", "words.txt", "--output_dir", "games"]);
        command.args(["--taboo_max_turns", "1", "--max_new_tokens", "4", "--max_length", "400"]);
        command.args(["--attacker_model_name_or_path", model, "--defender_model_name_or_path", model]).args(flags);
        run(&mut command, code).1
    };
    play(&["--attacker_adapter", adapter], 0);
    assert!(play(&["--defender_adapter", adapter], 2).contains("with adapter"));
}

#[test]
fn a_league_of_adapters_plays_with_one_engine() {
    let folder = tempfile::tempdir().unwrap();
    let model = fixture("tiny-llama");
    let model = model.to_str().unwrap();
    fs::write(folder.path().join("words.txt"), "bear\nfrog\n").unwrap();
    let twin = folder.path().join("twin");
    fs::create_dir(&twin).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(fixture("peft/patterns").join(file), twin.join(file)).unwrap();
    }
    let adapters = [fixture("peft/patterns"), fixture("peft/attention"), twin];
    let names = ["patterns", "attention", "twin"];
    let mut arena = program("spag");
    arena.current_dir(folder.path()).args(["arena", "--words", "words.txt", "--games", "4"]);
    arena.args(["--taboo_max_turns", "2", "--max_new_tokens", "6", "--max_length", "400", "--temperature", "0.9"]);
    arena.arg("--players").args(["base", "patterns", "attention", "twin"].map(|name| format!("{name}={model}")));
    for (name, adapter) in names.iter().zip(&adapters) {
        arena.args(["--adapter", &format!("{name}={}", adapter.display())]);
    }
    run(&mut arena, 0);
    let games = |pair: &str| {
        let text = fs::read_to_string(folder.path().join(format!("arena/{pair}.jsonl"))).unwrap();
        let utterances = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["history"].clone();
        text.lines().map(utterances).filter(|history| !history.is_null()).collect::<Vec<_>>()
    };
    // Equal adapters under two names play alike; others do not.
    let (first, second) = (games("base_vs_patterns"), games("base_vs_twin"));
    assert!(first.len() == 4 && first == second, "{first:?} {second:?}");
    assert_ne!(first, games("base_vs_attention"));
    let record = fs::read_to_string(folder.path().join("arena/base_vs_twin.jsonl")).unwrap();
    assert!(record.contains("unmerged"), "{record}");
}

#[test]
fn adapters_for_other_models_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (model, adapter) = (root().join("data/tiny-llama"), fixture("peft/patterns"));
    let (model, adapter) = (model.to_str().unwrap(), adapter.to_str().unwrap());
    let file = folder.path().join("prompts.jsonl");
    fs::write(&file, "{\"prompt\": \"Let us play\"}\n").unwrap();
    let file = file.to_str().unwrap();
    for command in [
        vec!["generate", "--input", file, "--output", "out.jsonl", "--model", model, "--adapter", adapter],
        vec!["eval", "--tasks", "tiny", "--output_dir", "out", "--model", model, "--adapter", adapter],
        vec!["eval", "--tasks", "games", "--output_dir", "out", "--model", model, "--adapter", adapter],
        vec!["bench", "generate", "--model", model, "--adapter", adapter],
        vec!["bench", "play", "--model", model, "--adapter", adapter],
    ] {
        let (_, err) = run(program("spag").current_dir(folder.path()).args(&command), 2);
        assert!(err.contains("lora_") && err.contains("peft/patterns"), "{command:?}: {err}");
    }
}
