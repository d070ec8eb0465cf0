//! Runs whose models are held to the actions of their game.

use std::path::{Path, PathBuf};

use crate::common::tiny::run_config;
use spag_game::{Episode, read_episodes};
use spag_io::{Silent, error_chain};
use spag_pipeline::{RunConfig, run};

/// A run of Nim whose models have hardly learned how moves are written.
fn config(run_dir: &Path, overrides: &[&str]) -> RunConfig {
    let nim = [
        "game=nim",
        "imitation.source=random",
        "imitation.games=24",
        "imitation.train.num_train_epochs=1.0",
        "sft.share=0",
        "self_play.games=12",
        "evaluation.arena_games=4",
    ];
    run_config(run_dir, &[&nim, overrides].concat())
}

/// The games of models: of self-play and of the evaluation.
fn games(config: &RunConfig) -> Vec<Episode> {
    let eval = config.run_dir.join("eval").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = eval.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).collect();
    assert!(!files.is_empty(), "{files:?}");
    files.push(config.run_dir.join("spag-1/episodes.jsonl"));
    files.into_iter().flat_map(|path| read_episodes(path).unwrap()).collect()
}

fn refused(games: &[Episode]) -> usize {
    let said = games.iter().flat_map(|game| &game.history);
    said.filter(|utterance| utterance.extra.contains_key("refusal")).count()
}

#[test]
fn no_utterance_of_a_held_model_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let [free, held] = ["free", "held"].map(|name| root.path().join(name));
    let free = config(&free, &[]);
    run(&free, &mut Silent).unwrap();
    assert!(refused(&games(&free)) > 0);
    let held = config(&held, &["self_play.constrain_actions=true"]);
    run(&held, &mut Silent).unwrap();
    let played = games(&held);
    assert!(played.len() >= 12 + 4, "{}", played.len());
    assert_eq!(refused(&played), 0);
    // The games of a run are of one kind.
    let other = config(&held.run_dir, &[]);
    let error = error_chain(&run(&other, &mut Silent).unwrap_err());
    assert!(error.contains("self_play.constrain_actions"), "{error}");
}
