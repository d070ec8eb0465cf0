//! Runs with control arms: what the arms are, the report's comparison, kills, seeds pooled, and what is refused.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use spag_dist::{LaunchEnv, Single};
use spag_io::{Progress, Silent};
use spag_pipeline::{Ended, Result, RunConfig, read_arms, render_arms, render_text, report_document, run};
use spag_rewards::{SampleKind, read_samples};

use crate::common::tiny::run_config;
use crate::run::{PanicAfter, contents};

const TASKS: [&str; 2] = ["benchmarks.tasks=tiny", "benchmarks.limit=12"];

fn config(folder: &Path, more: &[&str]) -> RunConfig {
    run_config(folder, &[&TASKS[..], more].concat())
}

fn with_controls(config: &RunConfig, progress: &mut dyn Progress) -> Result<Ended> {
    spag_pipeline::run_with_controls(config, &LaunchEnv::single(), Arc::new(Single), progress)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn settings(folder: &Path) -> toml::Table {
    fs::read_to_string(folder.join("config.resolved.toml")).unwrap().parse().unwrap()
}

#[test]
fn arms_start_from_the_imitation_and_are_compared_with_the_last_model() {
    let root = tempfile::tempdir().unwrap();
    let config = config(&root.path().join("main"), &["epochs=2", "benchmarks.whole=[\"last\"]"]);
    let report = with_controls(&config, &mut Silent).unwrap().report.unwrap();
    let found = report.controls.as_ref().unwrap();
    assert_eq!((found.model.as_str(), found.seeds), ("SPAG-2", 1));
    assert_eq!(found.others, ["base", "random-winner", "general-text"]);
    // The base model has 12 rows of each task.
    assert!(found.tasks.len() > 1 && found.tasks.iter().all(|task| task.rows.is_multiple_of(12)), "{found:?}");
    for (other, line) in found.others.iter().zip(&found.tasks.last().unwrap().others) {
        let shown = format!("{:.1}", 100.0 * line.0);
        assert!(render_text(&report).contains(&shown), "{other}: {shown}");
    }
    let text = render_text(&report);
    assert!(text.contains("more than random-winner") && text.contains("With one seed"), "{text}");
    assert!(report_document(&report).html().contains("more than general-text"));

    let arm = |name: &str| config.run_dir.join("controls").join(name);
    let rows_of = |folder: &Path| read_samples(folder.join("samples.jsonl")).unwrap();
    let main = [1, 2].map(|round| rows_of(&config.run_dir.join(format!("spag-{round}"))));
    // As many samples as the rounds of the run, all of them general text, and no game.
    for (round, samples) in (1..).zip(&main) {
        let folder = arm("general-text").join(format!("spag-{round}"));
        let text = rows_of(&folder);
        assert_eq!(text.len(), samples.len());
        assert!(text.iter().all(|sample| sample.kind == SampleKind::Sft) && !folder.join("episodes.jsonl").exists());
    }
    // The games of the first round are those of the run: its model, words and seed. What is rewarded differs.
    let games = |folder: &Path| spag_game::read_episodes(folder.join("spag-1/episodes.jsonl")).unwrap();
    let said = |folder: &Path| games(folder).into_iter().map(|game| (game.item, game.history)).collect::<Vec<_>>();
    assert_eq!(said(&config.run_dir), said(&arm("random-winner")));
    assert_ne!(main[0], rows_of(&arm("random-winner").join("spag-1")));
    for name in ["random-winner", "general-text"] {
        let settings = settings(&arm(name));
        assert_eq!(settings["imitation"]["source"].as_str(), Some("none"));
        assert_eq!(settings["base_model"].as_str(), config.run_dir.join("im/model").to_str());
        assert_eq!(settings.get("benchmarks"), None);
        assert!(arm(name).join("report.txt").exists());
    }
    // A later call of the run alone keeps the comparison.
    assert_eq!(run(&config, &mut Silent).unwrap().controls, report.controls);
}

#[test]
fn killed_arms_go_on_and_end_with_the_same_files() {
    let root = tempfile::tempdir().unwrap();
    let often = ["imitation.train.save_steps=2", "train.save_steps=2"];
    let straight = config(&root.path().join("straight"), &often);
    with_controls(&straight, &mut Silent).unwrap();
    let killed = config(&root.path().join("killed"), &often);
    let mut kills = 0;
    while catch_unwind(AssertUnwindSafe(|| with_controls(&killed, &mut PanicAfter { steps: 61 }).unwrap())).is_err() {
        kills += 1;
        assert!(kills < 100, "it does not come to an end");
    }
    assert!(kills > 3, "{kills}");
    let (mut one, mut other) = (contents(&straight.run_dir), contents(&killed.run_dir));
    for files in [&mut one, &mut other] {
        // What names the folder of the run, and the locks.
        let own =
            ["report.html", "report.txt", "report.json", "inputs.json", "where.txt", ".toml", "lock", "/results.json"];
        files.retain(|name, _| !name.contains("status/") && !own.iter().any(|end| name.ends_with(end)));
    }
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, content) in &one {
        assert!(other[name] == *content, "{name}");
    }
}

#[test]
fn on_policy_run_has_the_arms_with_as_many_steps() {
    let root = tempfile::tempdir().unwrap();
    let online = ["method=online", "online.updates=4", "online.eval_updates=2", "online.games_per_update=6"];
    let config = config(&root.path().join("main"), &online);
    let report = with_controls(&config, &mut Silent).unwrap().report.unwrap();
    assert_eq!(report.controls.unwrap().others, ["base", "random-winner", "general-text"]);
    let controls = config.run_dir.join("controls");
    assert_eq!(settings(&controls.join("random-winner"))["online"]["control"].as_str(), Some("random_winner"));
    // Two updates a part, in batches of 8 rows.
    assert_eq!(read(&controls.join("rows.json")), json!([16, 16]));
    let done = read(&controls.join("general-text/spag-2/done.json"));
    assert_eq!(done["counts"]["steps"], 2);
}

#[test]
fn seeds_are_pooled_when_runs_are_compared() {
    let root = tempfile::tempdir().unwrap();
    let folders = [1, 2].map(|seed| {
        let folder = root.path().join(format!("main-{seed}"));
        with_controls(&config(&folder, &[&format!("seed={seed}")]), &mut Silent).unwrap();
        folder
    });
    let text = render_arms(&read_arms(&folders).unwrap());
    let line = text.lines().find(|line| line.contains("main: SPAG-1 against the others")).unwrap();
    assert!(line.contains("2 seeds"), "{text}");
    assert!(!text.contains("With one seed"), "{text}");
    // The arms themselves are runs, whose seeds are pooled too.
    let arms =
        folders.iter().flat_map(|main| ["random-winner", "general-text"].map(|arm| main.join("controls").join(arm)));
    let arms = read_arms(&arms.collect::<Vec<_>>()).unwrap();
    let named: Vec<_> = arms.iter().map(|arm| (&*arm.name, arm.reports.len())).collect();
    assert_eq!(named[0], ("random-winner", 2), "{named:?}");
}

#[test]
fn runs_without_a_comparison_are_refused_before_anything_is_played() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("main");
    let tasks = "benchmarks.tasks=tiny";
    for (overrides, setting) in [
        (&["seed=0"][..], "benchmarks"),
        (&[tasks, "epochs=0"], "epochs"),
        (&[tasks, "sft.alone=[4]"], "sft.alone"),
        (&[tasks, "method=online", "online.control=random_winner"], "online.control"),
        (&[tasks, "rewards.credit=signed"], "rewards.credit"),
    ] {
        let config = run_config(&folder, overrides);
        let error = with_controls(&config, &mut Silent).unwrap_err().to_string();
        assert!(error.contains(setting), "{error}");
    }
    assert!(!folder.exists());
    for (overrides, message) in [
        (&["sft.alone=[4, 4]"][..], "2 rounds have a number of rows, of epochs = 1"),
        (&["sft.alone=[0]"], "a round has 1 to"),
        (&["sft.alone=[4]", "method=online"], "has games in every update"),
    ] {
        let loaded = catch_unwind(|| run_config(&folder, overrides));
        let error = *loaded.unwrap_err().downcast::<String>().unwrap();
        assert!(error.contains(message), "{error}");
    }
}
