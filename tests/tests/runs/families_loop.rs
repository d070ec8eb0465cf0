//! The whole loop with models of several families: imitation, play, rewards and policy optimisation, on one process and on two
//! ranks that share everything (ZeRO-3).

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use spag_game::read_episodes;
use spag_model::checkpoint::{check_checkpoint, load_tokenizer};
use spag_tests::{Ranks, fixture, json, json_lines, program, root, run};

/// `.bin` files with `tokenizer.model`; biases; norms of heads; ALiBi with a normalised head; factors of branches and logits;
/// LongRoPE; a text model inside a multimodal one.
const FAMILIES: [&str; 7] = ["llama2-bin", "qwen2", "qwen3", "baichuan2-13b", "granite", "phi3-longrope", "gemma3-mm"];
const WORDS: &str = "horse\npiano\nlemon\n";

fn train(dir: &Path, model: &Path, method: &str, data: &str, output: &str, more: &str) -> Command {
    let mut command = program("spag-train");
    command.current_dir(dir).arg("--model_name_or_path").arg(model).arg("--ref_model_name_or_path").arg(model);
    command.args(["--train_method", method, "--train_data_path", data, "--output_dir", output]);
    command.args("--num_train_epochs 1 --max_length 160 --learning_rate 1e-3 --weight_decay 0.01".split_whitespace());
    command.args("--lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --data_order sequential".split_whitespace());
    command.args(more.split_whitespace());
    command
}

fn play(dir: &Path, attacker: &Path, defender: &Path, output: &str) -> Command {
    let mut command = program("spag-play");
    command.current_dir(dir).arg("--attacker_model_name_or_path").arg(attacker);
    command.arg("--defender_model_name_or_path").arg(defender).args([
        "--data_path",
        "words.txt",
        "--output_dir",
        output,
    ]);
    command.args("--model_prefix im --max_new_tokens 8 --taboo_max_turns 2 --max_length 300".split_whitespace());
    command.arg("--prompts").arg(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"));
    command
}

/// The one file of `folder` whose name ends with `end`.
fn only_file(folder: &Path, end: &str) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = files.filter(|path| path.to_string_lossy().ends_with(end));
    let file = found.next().unwrap_or_else(|| panic!("no …{end} in {}", folder.display()));
    assert_eq!(found.next(), None);
    file
}

/// The training curve, from a run on one process, or on two ranks with half as many micro-batches each.
fn curve(dir: &Path, model: &Path, method: &str, data: &str, output: &str, ranks: usize) -> Vec<[f64; 2]> {
    let command = |_| {
        let each = match ranks {
            1 => "--per_device_train_batch_size 2 --gradient_accumulation_steps 2",
            _ => "--per_device_train_batch_size 2 --zero_stage 3 --gradient_checkpointing True --offload_optimizer cpu",
        };
        train(dir, model, method, data, output, each)
    };
    Ranks::start(ranks, command).succeed();
    let lines = json_lines(dir.join(output).join("metrics.jsonl")).into_iter();
    lines.map(|line| ["loss", "grad_norm"].map(|key| line[key].as_f64().unwrap())).collect()
}

fn assert_same(one: &[[f64; 2]], other: &[[f64; 2]], what: &str) {
    assert!(!one.is_empty() && one.len() == other.len(), "{what}: {one:?} {other:?}");
    for (one, other) in one.iter().flatten().zip(other.iter().flatten()) {
        assert!(one.is_finite() && (one - other).abs() <= 1e-4 * one.abs().max(1.0), "{what}: {one} {other}");
    }
}

/// Two games with winners in place of the first two, since untrained models decide none.
fn decide(results: &Path) {
    let mut games = json(results);
    games[0]["history"] = json!([
        {"role": "attacker", "content": "What do knights ride?"}, {"role": "defender", "content": "A horse."},
    ]);
    games[1]["history"] = json!([
        {"role": "attacker", "content": "It has keys."}, {"role": "defender", "content": "I know the word! It is `piano`!"},
    ]);
    std::fs::write(results, games.to_string()).unwrap();
}

fn run_loop(family: &str) {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let source = fixture("families").join(family);
    let samples: Vec<Value> = ["Do you like music?", "I know the word! It is `cat`!", "Answer", "Four, and 2."]
        .iter()
        .map(|target| json!({"query": "A game. Attacker:", "target": target}))
        .collect();
    std::fs::write(dir.join("imitation.json"), Value::from(samples).to_string()).unwrap();
    std::fs::write(dir.join("words.txt"), WORDS).unwrap();

    let [alone, shared] = [("im", 1), ("im-2", 2)]
        .map(|(output, ranks)| curve(dir, &source, "SFTwithKL", "imitation.json", output, ranks));
    assert_same(&alone, &shared, family);
    // The same architecture and tokenizer.
    let (imitation, before) = (check_checkpoint(dir.join("im")).unwrap(), check_checkpoint(&source).unwrap());
    assert_eq!(imitation.architecture, before.architecture);
    let (tokenizer, text) = (load_tokenizer(dir.join("im")).unwrap(), "Do you know 42 pianos?");
    assert_eq!(tokenizer.encode(text).unwrap(), load_tokenizer(&source).unwrap().encode(text).unwrap());

    let model = dir.join("im");
    run(&mut play(dir, &model, &model, "games"), 0);
    let results = only_file(&dir.join("games"), "_results.json");
    let games = read_episodes(&results).unwrap();
    assert_eq!(games.len(), 3);
    assert!(games.iter().all(|game| !game.history.is_empty()), "{games:?}");
    // The games of two ranks are the same bytes.
    Ranks::start(2, |_| play(dir, &model, &model, "games-2")).succeed();
    let bytes = |file: &Path| std::fs::read(file).unwrap();
    assert!(bytes(&only_file(&dir.join("games-2"), "_results.json")) == bytes(&results), "{family}");

    decide(&results);
    let mut rewards = program("spag-assign-rewards");
    rewards.arg("--input_data_path").arg(&results).arg("--output_data_path").arg(dir.join("rewarded.json"));
    rewards.arg("--prompts").arg(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"));
    rewards.arg("--sft_data_path").arg(dir.join("imitation.json"));
    run(&mut rewards, 0);
    let [alone, shared] = [("spag", 1), ("spag-2", 2)]
        .map(|(output, ranks)| curve(dir, &model, "OfflinePO", "rewarded.json", output, ranks));
    assert_same(&alone, &shared, family);
    assert_eq!(check_checkpoint(dir.join("spag")).unwrap().architecture, before.architecture);
}

#[test]
fn llama2_from_bin_files_goes_through_the_loop() {
    run_loop(FAMILIES[0]);
}

#[test]
fn qwen2_goes_through_the_loop() {
    run_loop(FAMILIES[1]);
}

#[test]
fn qwen3_goes_through_the_loop() {
    run_loop(FAMILIES[2]);
}

#[test]
fn baichuan2_goes_through_the_loop() {
    run_loop(FAMILIES[3]);
}

#[test]
fn granite_goes_through_the_loop() {
    run_loop(FAMILIES[4]);
}

#[test]
fn phi3_with_long_rope_goes_through_the_loop() {
    run_loop(FAMILIES[5]);
}

#[test]
fn gemma3_inside_a_multimodal_model_goes_through_the_loop() {
    run_loop(FAMILIES[6]);
}

/// Every pair of families, with one in each seat.
#[test]
fn families_play_against_each_other() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    std::fs::write(dir.join("words.txt"), WORDS).unwrap();
    for (index, attacker) in FAMILIES.iter().enumerate() {
        let defender = FAMILIES[(index + 1) % FAMILIES.len()];
        let output = format!("games-{index}");
        let folder = |name: &str| fixture("families").join(name);
        run(&mut play(dir, &folder(attacker), &folder(defender), &output), 0);
        let games = read_episodes(only_file(&dir.join(&output), "_results.json")).unwrap();
        assert_eq!(games.len(), 3, "{attacker} against {defender}");
    }
}
