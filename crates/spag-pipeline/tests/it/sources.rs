//! Runs from other sources than the small world's players, with words held out, and runs that stop.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::tiny::run_config;
use spag_game::{Episode, read_episodes, taboo};
use spag_io::{Silent, write_jsonl_atomically};
use spag_pipeline::{Error, Report, RunConfig, plan_run, run};

fn finished(run_dir: &Path, overrides: &[&str]) -> (RunConfig, Report) {
    let config = run_config(run_dir, overrides);
    let report = run(&config, &mut Silent).unwrap();
    (config, report)
}

fn words_of(path: &Path) -> BTreeSet<String> {
    read_episodes(path).unwrap().into_iter().map(|game| game.item).collect()
}

fn lines(path: &Path) -> BTreeSet<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn held_out_words_are_played_in_the_evaluation_alone() {
    let root = tempfile::tempdir().unwrap();
    let (first, _) = finished(&root.path().join("first"), &["epochs=0"]);
    let games = format!("imitation.file={}", first.run_dir.join("im/episodes.jsonl").display());
    let settings = ["imitation.source=games", &games, "words.holdout=0.25", "evaluation.held_out_games=6"];
    let (config, report) = finished(&root.path().join("second"), &settings);
    let file = |name: &str| config.run_dir.join(name);
    let held_out = lines(&file("held-out-words.txt"));
    assert_eq!((held_out.len(), lines(&file("words.txt")).len()), (2, 6));
    for played in ["im/episodes.jsonl", "spag-1/episodes.jsonl", "eval/im-vs-im.jsonl", "eval/spag-1-vs-im.jsonl"] {
        assert_eq!(words_of(&file(played)), lines(&file("words.txt")), "{played}");
    }
    for played in ["im-vs-im", "spag-1-vs-im", "im-vs-spag-1"] {
        assert_eq!(words_of(&file(&format!("eval/held-out/{played}.jsonl"))), held_out, "{played}");
    }
    let measured = report.first.held_out.unwrap();
    assert_eq!((measured.words, measured.baseline.games, measured.matches.len()), (2, 6, 1));
    assert_eq!(measured.matches[0].seats[taboo::ATTACKER].games, 6);
    assert!(fs::read_to_string(file("report.txt")).unwrap().contains("The same on 2 words that no training game"));
    // Which words are held out is a setting.
    let said = run(&run_config(&config.run_dir, &[settings[0], settings[1], settings[3]]), &mut Silent)
        .unwrap_err()
        .to_string();
    assert!(said.contains("`words.holdout` = 0.25, but it is now 0.0"), "{said}");
}

#[test]
fn ready_samples_give_the_same_model_and_an_imitation_model_is_a_base() {
    let root = tempfile::tempdir().unwrap();
    let (first, _) = finished(&root.path().join("first"), &["epochs=0"]);
    let samples = format!("imitation.file={}", first.run_dir.join("im/samples.jsonl").display());
    let eval = format!("imitation.train.eval_data_path=[\"{}\"]", first.run_dir.join("im/samples.jsonl").display());
    let (second, report) =
        finished(&root.path().join("second"), &["epochs=0", "imitation.source=samples", &samples, &eval]);
    let metrics = fs::read_to_string(second.run_dir.join("im/metrics.jsonl")).unwrap();
    assert_eq!(metrics.matches("\"eval_loss\"").count(), 1, "at the end of the epoch");
    let weights = |config: &RunConfig| fs::read(config.run_dir.join("im/model/model.safetensors")).unwrap();
    assert!(weights(&first) == weights(&second));
    assert!(report.first.training_games.is_empty() && report.first.rounds[0].games.is_none(), "samples tell no games");
    assert!(
        report.first.rounds[0].training.as_ref().is_some_and(|training| training.kl.is_some() && training.steps > 0)
    );

    let base = format!("base_model={}", first.run_dir.join("im/model").display());
    let tasks = ["benchmarks.tasks=tiny", "benchmarks.limit=2"];
    let (third, report) = finished(&root.path().join("third"), &["imitation.source=none", &base, tasks[0], tasks[1]]);
    assert!(!third.run_dir.join("im").exists());
    let names: Vec<&str> = report.first.training_games.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(names, ["IM", "SPAG-1"]);
    let scored: Vec<&str> = report.benchmarks.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(scored, ["base", "SPAG-1"], "base and IM are one model");
    // The same model plays the same games as the imitation model of the first run would.
    let (whole, _) = finished(&root.path().join("whole"), &[]);
    let games = |config: &RunConfig| fs::read(config.run_dir.join("eval/im-vs-im.jsonl")).unwrap();
    assert!(games(&whole) == games(&third));
}

#[test]
fn general_texts_of_a_file_are_whole_or_a_share() {
    let root = tempfile::tempdir().unwrap();
    let texts = root.path().join("texts.jsonl");
    let rows: Vec<String> = (0..7).map(|row| format!("{{\"prompt\": \"{row}?\", \"target\": \"{row}\"}}\n")).collect();
    fs::write(&texts, rows.concat()).unwrap();
    let file = format!("sft.file={}", texts.display());
    for (share, name) in [("whole", "whole"), ("0.5", "half")] {
        let share = format!("sft.share={share}");
        let (config, _) = finished(&root.path().join(name), &[&file, &share, "evaluation.games=1"]);
        let samples = spag_rewards::read_samples(config.run_dir.join("spag-1/samples.jsonl")).unwrap();
        let of_games = samples.iter().filter(|sample| sample.seat.is_some()).count();
        let sft: Vec<&str> = samples.iter().skip(of_games).map(|sample| sample.target.as_str()).collect();
        assert!(of_games > 14);
        if name == "whole" {
            assert_eq!(sft, ["0", "1", "2", "3", "4", "5", "6"]);
        } else {
            assert_eq!(sft.len(), (of_games as f64 * 0.5).round() as usize);
            // Each pass over the file has every row once.
            assert_eq!(sft[..7].iter().collect::<BTreeSet<_>>().len(), 7);
        }
    }
}

#[test]
fn rule_stops_the_run_with_a_report_and_without_it_the_run_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let (straight, expected) = finished(&root.path().join("straight"), &[]);
    let run_dir = root.path().join("stopped");
    let (config, report) = finished(&run_dir, &["stop_when.attacker_wins=0.0"]);
    let reason = report.stopped.as_ref().unwrap();
    assert!(reason.contains("stage spag-1 stopped the run: attacker_wins is ") && reason.contains("= 0"), "{reason}");
    let there = |name: &str| config.run_dir.join(name).exists();
    assert!(there("spag-1/episodes.jsonl") && there("eval/im-vs-im.jsonl") && there("report.html"));
    assert!(!there("spag-1/samples.jsonl") && !there("spag-1/done.json") && !there("eval/done.json"));
    assert_eq!((report.first.baseline.games, report.first.matches.len(), report.first.rounds.len()), (10, 0, 2));
    assert!(report.first.rounds[1].games.is_some() && report.first.rounds[1].training.is_none());
    let timed: Vec<&str> = report.stages.iter().map(|stage| stage.stage.as_str()).collect();
    assert_eq!(timed, ["im", "eval"]);
    assert!(fs::read_to_string(run_dir.join("report.txt")).unwrap().starts_with("The run stopped: stage spag-1"));

    let (_, report) = finished(&run_dir, &[]);
    assert_eq!((report.stopped, report.first.matches), (None, expected.first.matches));
    let weights = |dir: &Path| fs::read(dir.join("spag-1/model/model.safetensors")).unwrap();
    assert!(weights(&run_dir) == weights(&straight.run_dir));
}

#[test]
fn round_without_a_won_game_ends_with_a_report() {
    let root = tempfile::tempdir().unwrap();
    let mut tie = Episode::new("tiger", 1);
    tie.push(taboo::ATTACKER, "Hello.");
    tie.push(taboo::DEFENDER, "Well.");
    let games = root.path().join("games.jsonl");
    write_jsonl_atomically(&games, &[tie]).unwrap();
    let file = format!("imitation.file={}", games.display());
    let (config, report) = finished(&root.path().join("run"), &["imitation.source=games", &file]);
    assert!(
        report
            .stopped
            .as_ref()
            .is_some_and(|reason| reason.contains("stage im") && reason.contains("no game gave samples"))
    );
    assert_eq!((report.first.baseline.games, report.first.training_games.len(), report.losses.len()), (0, 1, 0));
    assert_eq!(report.warnings, ["IM: 100% of the games are ties, which no player learns from"]);
    let text = fs::read_to_string(config.run_dir.join("report.txt")).unwrap();
    assert!(!text.contains("Win rates") && text.contains("Warning: IM: 100% of the games are ties"), "{text}");
    assert!(!text.contains("-0.0"), "{text}");
    assert!(fs::read_to_string(config.run_dir.join("report.html")).unwrap().contains("The run stopped: stage im"));
}

#[test]
fn epochs_that_play_each_other_are_rated() {
    let root = tempfile::tempdir().unwrap();
    let (config, report) = finished(&root.path().join("run"), &["epochs=2", "evaluation.arena_games=4"]);
    let ratings = report.first.ratings.unwrap();
    let names: BTreeSet<&str> = ratings.players.iter().map(|player| player.name.as_str()).collect();
    assert_eq!(names, ["IM", "SPAG-1", "SPAG-2"].into());
    let games = |name: &str| ratings.players.iter().find(|player| player.name == name).unwrap().both.games;
    assert_eq!((games("IM"), games("SPAG-1"), games("SPAG-2")), (40, 28, 28));
    assert_eq!(read_episodes(config.run_dir.join("eval/spag-2-vs-spag-1.jsonl")).unwrap().len(), 4);
    assert!(fs::read_to_string(config.run_dir.join("report.txt")).unwrap().contains("Elo ratings"));
}

#[test]
fn plan_counts_what_the_run_then_makes() {
    let root = tempfile::tempdir().unwrap();
    let config = run_config(&root.path().join("run"), &["words.holdout=0.25", "train.save_steps=1"]);
    let plan = plan_run(&config, 1).unwrap();
    assert_eq!((plan.words, plan.held_out), (6, 2));
    let stages: Vec<(&str, usize)> = plan.stages.iter().map(|stage| (stage.name.as_str(), stage.games)).collect();
    // IM itself and both seats of SPAG-1 on both sets of words, and SPAG-1 against itself.
    assert_eq!(stages, [("base", 0), ("im", 120), ("spag-1", 24), ("eval", 2 * 3 * 10 + 6)]);
    run(&config, &mut Silent).unwrap();
    for stage in &plan.stages {
        for output in stage.outputs.iter().chain(&stage.inputs) {
            assert!(output.exists(), "{}", output.display());
        }
    }
    let model = fs::metadata(config.run_dir.join("spag-1/model/model.safetensors")).unwrap().len();
    let ratio = plan.disk.models as f64 / (2.0 * model as f64);
    assert!((0.9..=1.0).contains(&ratio), "headers and names of tensors are not planned: {ratio}");
    assert!(plan.disk.checkpoints > plan.disk.models, "moments and all checkpoints: {:?}", plan.disk);
}

#[test]
fn run_that_exceeds_the_disk_does_not_start() {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().join("huge");
    fs::create_dir(&base).unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 65536, "intermediate_size": 262144, "vocab_size": 128256,
        "num_hidden_layers": 512, "num_attention_heads": 512, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}"#;
    fs::write(base.join("config.json"), config).unwrap();
    let settings = [format!("base_model={}", base.display()), "epochs=1000".to_owned()];
    let config = run_config(&root.path().join("run"), &settings.each_ref().map(String::as_str));
    let error = run(&config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::TooLittleDisk { needed, free, .. } if needed > free), "{error}");
}
