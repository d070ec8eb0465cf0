//! Imitation of the base model's own games: what is accepted, how a run resumes, and when it gives up.

use std::fs;
use std::path::Path;

use crate::common::tiny::run_config;
use spag_game::{JudgeKind, judge_episode, read_episodes, taboo};
use spag_io::Silent;
use spag_pipeline::{Error, RunConfig, measure_run, plan_run, run};

/// A run that imitates the base model's own games, without rounds after it.
fn config(run_dir: &Path, overrides: &[&str]) -> RunConfig {
    let own = ["imitation.source=self", "imitation.max_new_tokens=16", "epochs=0", "evaluation.games=2"];
    run_config(run_dir, &[&own, overrides].concat())
}

#[test]
fn winners_by_the_rules_become_samples() {
    let root = tempfile::tempdir().unwrap();
    let config = config(&root.path().join("run"), &["imitation.games=60"]);
    let im = |name: &str| config.run_dir.join("im").join(name);
    assert_eq!(plan_run(&config, 1).unwrap().stages[1].games, 60);
    let report = run(&config, &mut Silent).unwrap();

    let games = read_episodes(im("episodes.jsonl")).unwrap();
    let samples = spag_rewards::read_samples(im("samples.jsonl")).unwrap();
    let mut expected = Vec::new();
    let mut won = 0;
    for game in &games {
        let verdict = judge_episode(JudgeKind::Paper, game).unwrap();
        let (ending, length) = (verdict.ending, verdict.history_length);
        if let Some(winner) = verdict.winner().filter(|_| ending != taboo::BROKEN_RULE) {
            let said = game.history[..length].iter().filter(|utterance| utterance.seat == winner);
            expected.extend(said.map(|utterance| (Some(winner), utterance.content.trim().to_owned())));
            won += 1;
        }
    }
    assert!(0 < won && won < 60, "{won}");
    let found: Vec<_> = samples.into_iter().map(|sample| (sample.seat, sample.target)).collect();
    assert_eq!(found, expected);
    let part = &report.first.imitation[0];
    assert_eq!((part.source.as_str(), part.games, part.won), ("self", 60, won));
    assert_eq!((part.samples, part.used), (expected.len(), expected.len()));
    assert_eq!(report.first.training_games[0].name, "base");
    let text = fs::read_to_string(config.run_dir.join("report.txt")).unwrap();
    assert!(text.contains("Sources of the imitation") && text.contains("self"), "{text}");
}

#[test]
fn games_go_on_after_a_kill_before_and_after_the_trial() {
    let root = tempfile::tempdir().unwrap();
    let config = config(&root.path().join("run"), &["imitation.games=320"]);
    let im = |name: &str| config.run_dir.join("im").join(name);
    run(&config, &mut Silent).unwrap();
    let files = ["episodes.jsonl", "samples.jsonl", "model/model.safetensors"];
    let whole = files.map(|name| fs::read(im(name)).unwrap());
    let games = fs::read_to_string(im("episodes.jsonl")).unwrap();
    for (left, trial) in [(100, false), (300, false), (300, true), (310, true)] {
        // What a kill leaves: some games, of which the last line is torn.
        fs::remove_file(im("done.json")).unwrap();
        fs::remove_dir_all(im("model")).unwrap();
        if !trial {
            fs::remove_file(im("trial.json")).unwrap();
        }
        let rows: String = games.split_inclusive('\n').take(left).collect();
        fs::write(im("episodes.jsonl"), rows + "{\"history\": [").unwrap();
        run(&config, &mut Silent).unwrap();
        assert!(files.map(|name| fs::read(im(name)).unwrap()) == whole, "{left} games were left");
    }
}

#[test]
fn model_that_wins_almost_nothing_is_given_up_after_the_trial() {
    let root = tempfile::tempdir().unwrap();
    // Greedy utterances of one token name no word.
    let mute = ["imitation.temperature=0", "imitation.max_new_tokens=1", "max_turns=1", "imitation.games=2000"];
    let config = config(&root.path().join("run"), &mute);
    for _ in ["first", "again"] {
        let report = run(&config, &mut Silent).unwrap();
        let reason = report.stopped.unwrap();
        assert!(reason.contains("stage im stopped the run: 0 of 300 games (0.0%) were won"), "{reason}");
        assert!(reason.contains("300 are ties") && reason.contains("another prompt_format"), "{reason}");
        assert_eq!(read_episodes(config.run_dir.join("im/episodes.jsonl")).unwrap().len(), 300);
        assert!(!config.run_dir.join("im/samples.jsonl").exists());
    }
}

#[test]
fn utterances_that_fill_the_context_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let config = config(&root.path().join("run"), &["imitation.max_new_tokens=256"]);
    let error = run(&config, &mut Silent).unwrap_err();
    assert!(
        matches!(&error, Error::BadSetting { setting: "imitation.max_new_tokens", message } if message.contains("256")),
        "{error}"
    );
}

#[test]
fn a_run_is_measured_by_games_that_are_known_before_it() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("run");
    // So slow a machine that few games and sequences are timed.
    let found = measure_run(&run_config(&dir, &[]), 1e8).unwrap().unwrap();
    assert!((2.0..=10.0).contains(&found.utterances) && (0.5..=5.0).contains(&found.samples), "{found:?}");
    assert!(found.sample_tokens > found.utterance_tokens && found.utterance_tokens > 1.0, "{found:?}");
    assert!(found.seconds_per_utterance > 0.0 && found.seconds_per_token > 0.0, "{found:?}");
    // Nothing is known of the base model's own games, and of a model that is too large for this machine.
    assert_eq!(measure_run(&config(&dir, &[]), 1e8).unwrap(), None);
    assert_eq!(measure_run(&run_config(&dir, &[]), 1e3).unwrap(), None);
    assert!(!dir.exists(), "a measurement writes nothing");
}
