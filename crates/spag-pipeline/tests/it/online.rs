//! On-policy runs: their files, the same files after a kill, several processes, and settings that are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::common::tiny::run_config;
use crate::run::{PanicAfter, contents};
use serde_json::Value;
use spag_io::Silent;
use spag_pipeline::{RunConfig, run};

/// Two parts of three updates with eight games each.
const ONLINE: [&str; 6] = [
    "method=online",
    "online.updates=6",
    "online.eval_updates=3",
    "online.games_per_update=8",
    "online.save_updates=2",
    "train.learning_rate=1e-3",
];

fn config(folder: &Path, more: &[&str]) -> RunConfig {
    run_config(folder, &[&ONLINE[..], more].concat())
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_update_learns_from_exactly_what_was_sampled() {
    let root = tempfile::tempdir().unwrap();
    for (name, more) in [("f32", &[][..]), ("bf16", &["train.bf16=true"])] {
        let config = config(&root.path().join(name), more);
        let report = run(&config, &mut Silent).unwrap();
        assert_eq!(report.first.matches.len(), 2);
        let metrics = lines(&config.run_dir.join("metrics.jsonl"));
        assert_eq!(metrics.len(), 6);
        let (mut compared, mut tokens_of) = (0, [0.0; 2]);
        for (at, line) in metrics.iter().enumerate() {
            assert_eq!((line["update"].as_u64(), line["games"].as_f64()), (Some(at as u64 + 1), Some(8.0)));
            if let Some(tokens) = line.get("log_prob_gap_tokens") {
                assert_eq!(
                    (&line["log_prob_gap_max"], &line["log_prob_gap_mean"]),
                    (&0.0.into(), &0.0.into()),
                    "{line}"
                );
                compared += tokens.as_f64().unwrap() as u64;
            }
            for (sum, key) in tokens_of.iter_mut().zip(["computed_tokens", "tokens"]) {
                *sum += line.get(key).and_then(Value::as_f64).unwrap_or(0.0);
            }
        }
        assert!(compared > 200, "{compared}");
        assert!(tokens_of[0] > 0.0 && tokens_of[0] < 0.9 * tokens_of[1], "trees: {tokens_of:?}");
        let parts = ["spag-1", "spag-2"].map(|stage| lines(&config.run_dir.join(stage).join("metrics.jsonl")));
        assert_eq!(parts.concat(), metrics);
        for (part, stage) in ["spag-1", "spag-2"].into_iter().enumerate() {
            let games = spag_game::read_episodes(config.run_dir.join(stage).join("episodes.jsonl")).unwrap();
            assert_eq!(games.len(), 24, "part {part}");
        }
    }
}

#[test]
fn interrupted_run_ends_with_the_same_files() {
    let root = tempfile::tempdir().unwrap();
    let straight = config(&root.path().join("straight"), &[]);
    run(&straight, &mut Silent).unwrap();
    let expected = contents(&straight.run_dir);
    let interrupted = config(&root.path().join("interrupted"), &[]);
    let mut kills = 0;
    for steps in [2, 9, 15, 17, 19, 21, 24, 27, 31, 200, 200, 200, 200] {
        let killed = catch_unwind(AssertUnwindSafe(|| run(&interrupted, &mut PanicAfter { steps }))).is_err();
        kills += usize::from(killed);
        if !killed {
            break;
        }
    }
    assert!(kills >= 5, "{kills}");
    run(&interrupted, &mut Silent).unwrap();
    let found = contents(&interrupted.run_dir);
    for (name, values) in &expected {
        assert_eq!(Some(values), found.get(name), "{name}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused_before_anything_is_played() {
    let root = tempfile::tempdir().unwrap();
    for (more, expected) in [
        (&["online.estimator=group"][..], "group"),
        (&["online.group_size=3"], "online.group_size"),
        (&["self_play.player=openai-completions:http://localhost:1/v1#{stage}"], "self_play.player"),
        (&["online.estimator=raee"], "rae"),
        (&["method=offline"], "method"),
    ] {
        let overrides: Vec<String> = ONLINE.iter().chain(more).map(|text| (*text).to_owned()).collect();
        let file = spag_tests::root().join("configs/tiny.toml");
        let error = RunConfig::load(&file, &overrides).unwrap_err().to_string();
        assert!(error.contains(expected), "{more:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}
