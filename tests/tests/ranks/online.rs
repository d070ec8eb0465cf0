//! On-policy runs on several ranks: exact log-probabilities, the same weights in every ZeRO stage, and resume after a kill.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use spag_tests::{Ranks, json_lines, run_tiny};

/// A few updates after a short imitation, without an evaluation.
const SETTINGS: [&str; 14] = [
    "method=online",
    "imitation.games=40",
    "imitation.train.per_device_train_batch_size=16",
    "online.updates=4",
    "online.games_per_update=12",
    "online.save_updates=1",
    "online.opponent=pool",
    "online.opponent_share=0.5",
    "online.pool_every=1",
    "online.pool_size=1",
    "train.per_device_train_batch_size=8",
    "train.learning_rate=1e-3",
    "evaluation.games=2",
    "evaluation.self_play_games=0",
];

fn online(dir: &Path, more: &[&str]) -> Command {
    let mut command = run_tiny(dir, &[&SETTINGS[..], more].concat());
    command.env("RAYON_NUM_THREADS", "1");
    command
}

/// The weights of the last model, and the metrics without seconds.
fn end(dir: &Path) -> (Vec<u8>, Vec<Value>) {
    let mut metrics: Vec<Value> = json_lines(dir.join("metrics.jsonl"));
    for line in &mut metrics {
        line.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_seconds"));
    }
    (fs::read(dir.join("spag-1/model/model.safetensors")).unwrap(), metrics)
}

#[test]
fn ranks_play_and_learn_exactly_in_every_stage_of_zero() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let dir = root.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        Ranks::start(4, |_| online(&dir, more)).succeed();
        end(&dir)
    };
    let (weights, metrics) = run("zero-0", &["train.zero_stage=0"]);
    assert_eq!(metrics.len(), 4);
    for line in &metrics {
        assert_eq!((line["games"].as_f64(), line["opponent_games"].as_f64()), (Some(12.0), Some(6.0)), "{line}");
        assert_eq!(line["log_prob_gap_max"].as_f64(), Some(0.0), "{line}");
    }
    let compared: f64 = metrics.iter().map(|line| line["log_prob_gap_tokens"].as_f64().unwrap()).sum();
    assert!(compared > 100.0, "{compared}");
    // Each rank's engine gets all weights, layer by layer, from the shards of all ranks.
    let sharded = run("zero-3", &["train.zero_stage=3"]);
    assert!(sharded.0 == weights, "other weights in stage 3");
    assert_eq!(sharded.1, metrics);
}

/// Every rank's engine gets the adapter from the shards of all ranks.
#[test]
fn ranks_train_an_adapter_exactly_in_every_stage_of_zero() {
    let root = tempfile::tempdir().unwrap();
    let run = |stage: &str| {
        let dir = root.path().join(stage);
        fs::create_dir_all(&dir).unwrap();
        let more = ["train.lora_r=4", "train.lora_target_modules=all-linear", "train.bf16=true", stage];
        Ranks::start(2, |_| online(&dir, &more)).succeed();
        (fs::read(dir.join("spag-1/adapter_model.safetensors")).unwrap(), end(&dir))
    };
    let (adapter, end) = run("train.zero_stage=0");
    for line in &end.1 {
        assert_eq!(line["log_prob_gap_max"].as_f64(), Some(0.0), "{line}");
    }
    let sharded = run("train.zero_stage=3");
    assert!(sharded.0 == adapter && sharded.1.0 == end.0, "other weights in stage 3");
    assert_eq!(sharded.1.1, end.1);
}

/// Every rank's engine gets the adapters of both seats from the shards of all ranks.
#[test]
fn ranks_train_a_policy_for_each_seat_exactly_in_every_stage_of_zero() {
    let root = tempfile::tempdir().unwrap();
    let run = |stage: &str| {
        let dir = root.path().join(stage);
        fs::create_dir_all(&dir).unwrap();
        let seats = ["online.policies=seats", "online.opponent=self", "train.lora_r=4", "train.bf16=true", stage];
        Ranks::start(2, |_| online(&dir, &seats)).succeed();
        let adapters = ["spag-1", "spag-1/second-seat"]
            .map(|folder| fs::read(dir.join(folder).join("adapter_model.safetensors")).unwrap());
        (adapters, end(&dir))
    };
    let (adapters, end) = run("train.zero_stage=0");
    for line in &end.1 {
        assert_eq!(line["log_prob_gap_max"].as_f64(), Some(0.0), "{line}");
    }
    assert!(adapters[0] != adapters[1]);
    let sharded = run("train.zero_stage=3");
    assert!(sharded.0 == adapters && sharded.1.0 == end.0, "other weights in stage 3");
    assert_eq!(sharded.1.1, end.1);
}

#[test]
fn killed_rank_does_not_change_the_result() {
    let root = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let dir = root.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        (Ranks::start(2, |_| online(&dir, &[])), dir)
    };
    let (whole, dir) = start("whole");
    whole.succeed();
    let expected = end(&dir);
    let dir = root.path().join("killed");
    for line in 1..=3 {
        let (mut ranks, _) = start("killed");
        let metrics = dir.join("metrics.jsonl");
        let lines = || fs::read_to_string(&metrics).map_or(0, |text| text.lines().count());
        spag_tests::wait_until("an update", Duration::from_secs(300), || lines() >= line || ranks.has_exited(0));
        ranks.kill(line % 2);
        drop(ranks.ended(Duration::from_secs(120), Some(line % 2)));
    }
    start("killed").0.succeed();
    let found = end(&dir);
    assert!(found.0 == expected.0, "other weights after three kills");
    assert_eq!(found.1, expected.1);
}
