//! Small runs of the loop: uninterrupted, interrupted and refused.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::common::tiny::{base, base_config, run_config};
use serde_json::Value;
use spag_io::{Progress, Silent};
use spag_pipeline::{BaseConfig, BaseQuality, Error, Report, RunConfig, make_base, run};
use spag_run::document::{Document, Part};
use spag_selfplay::GameMeter;

/// Panics after a number of progress updates, like a killed process.
pub(crate) struct PanicAfter {
    pub(crate) steps: usize,
}

impl Progress for PanicAfter {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {
        self.steps = self.steps.checked_sub(1).expect("killed by the test");
    }
    fn end(&mut self) {}
}

/// The files of a run folder that must not depend on interruptions, without seconds and rates.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let is_of_this_process = name == "lock" || name.starts_with("status/");
            if is_of_this_process || ["report.html", "report.txt", "config.resolved.toml"].contains(&name.as_str()) {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let values = if name.contains(".json") {
                serde_json::Deserializer::from_slice(&bytes).into_iter().map(|v| timeless(v.unwrap())).collect()
            } else {
                vec![Value::from(bytes)]
            };
            files.insert(name, values);
        }
    }
    files
}

fn timeless(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        let clock = [
            // Of files whose lines have seconds.
            "lengths",
            // Of adapters: the folder of another run.
            "base_model_name_or_path",
            "seconds",
            "play_seconds",
            "learn_seconds",
            "refresh_seconds",
            "resumed",
            "tokens_per_second",
            "model_tflops",
            "peak_memory_gib",
            "stages",
        ];
        let places = ["run_dir", "model_name_or_path", "train_data_path", "output_dir", "model_dir"];
        for key in clock.into_iter().chain(places) {
            map.remove(key);
        }
    }
    value
}

fn finished_run() -> (tempfile::TempDir, RunConfig, Report) {
    let root = tempfile::tempdir().unwrap();
    let config = run_config(&root.path().join("straight"), &[]);
    let report = run(&config, &mut Silent).unwrap();
    (root, config, report)
}

#[test]
fn run_writes_files_and_a_report() {
    let (_root, config, report) = finished_run();
    let there = |name: &str| config.run_dir.join(name).exists();
    for stage in ["im", "spag-1"] {
        for file in ["episodes.jsonl", "samples.jsonl", "metrics.jsonl", "done.json", "model/model.safetensors"] {
            assert!(there(&format!("{stage}/{file}")), "{stage}/{file}");
        }
    }
    for file in
        ["eval/im-vs-im.jsonl", "eval/spag-1-vs-im.jsonl", "eval/im-vs-spag-1.jsonl", "eval/spag-1-vs-spag-1.jsonl"]
    {
        assert!(there(file), "{file}");
    }
    for file in ["report.json", "report.html", "report.txt", "config.resolved.toml", "inputs.json", "base/where.txt"] {
        assert!(there(file), "{file}");
    }
    assert_eq!((report.first.baseline.games, report.first.matches.len(), report.first.samples.len()), (10, 1, 3));
    let names: Vec<&str> = report.first.training_games.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(names, ["scripted", "IM", "SPAG-1"]);
    // Scripted attackers give true clues only.
    assert_eq!(report.first.training_games[0].play.true_clues.share, Some(1.0));
    for (path, _) in &report.files {
        assert!(there(path), "{path}");
    }
    // Games have their seeds.
    let games = spag_game::read_episodes(config.run_dir.join("spag-1/episodes.jsonl")).unwrap();
    for (number, game) in games.iter().enumerate() {
        assert_eq!(game.extra["game"], Value::from(number));
        assert!(game.extra["seed"].is_u64());
    }
    // Each round has a seed of its own, which games, samples and models record with the wordings.
    let made = |name: &str| spag_run::Provenance::read_of(config.run_dir.join(name)).unwrap().unwrap();
    let seed = |stage: &str| made(&format!("{stage}/episodes.jsonl")).games[0].seed;
    assert_ne!(seed("im"), seed("spag-1"));
    assert_eq!(made("spag-1/model").games, [made("spag-1/samples.jsonl").games, made("im/model").games].concat());
    assert_eq!(made("spag-1/model").wordings, made("im/episodes.jsonl").wordings);
    let samples = spag_rewards::read_samples(config.run_dir.join("spag-1/samples.jsonl")).unwrap();
    let sft = samples.iter().filter(|sample| sample.kind == spag_rewards::SampleKind::Sft).count();
    assert_eq!(sft, ((samples.len() - sft) as f64 * 0.25).round() as usize);
}

#[test]
fn interrupted_run_ends_with_the_same_files() {
    let root = tempfile::tempdir().unwrap();
    // Training stages resume from checkpoints.
    let often = ["imitation.train.save_steps=2", "train.save_steps=2"];
    let config = run_config(&root.path().join("straight"), &often);
    run(&config, &mut Silent).unwrap();
    assert!(config.run_dir.join("spag-1/checkpoint-2/trainer_state").is_dir());
    let interrupted = run_config(&root.path().join("interrupted"), &often);
    let mut kills = 0;
    loop {
        let mut progress = PanicAfter { steps: 3 + 9 * kills };
        match catch_unwind(AssertUnwindSafe(|| run(&interrupted, &mut progress))) {
            Ok(result) => {
                result.unwrap();
                break;
            }
            Err(_) => kills += 1,
        }
        // A kill may tear the line that is being written.
        for file in ["im/episodes.jsonl", "spag-1/episodes.jsonl", "eval/im-vs-im.jsonl"] {
            let path = interrupted.run_dir.join(file);
            let stage_done = path.parent().unwrap().join("done.json").exists();
            if let (false, Ok(bytes)) = (stage_done, fs::read(&path)) {
                fs::write(&path, &bytes[..bytes.len() - bytes.len().min(7)]).unwrap();
            }
        }
    }
    assert!(kills > 3, "{kills}");
    let (straight, interrupted) = (contents(&config.run_dir), contents(&interrupted.run_dir));
    assert_eq!(straight.keys().collect::<Vec<_>>(), interrupted.keys().collect::<Vec<_>>());
    for (name, file) in &straight {
        assert!(interrupted[name] == *file, "{name} differs");
    }
}

#[test]
fn finished_run_is_not_repeated() {
    struct Counting(usize);
    impl Progress for Counting {
        fn begin(&mut self, _: &str, _: u64) {
            self.0 += 1;
        }
        fn advance(&mut self, _: u64, _: &str) {}
        fn end(&mut self) {}
        fn message(&mut self, line: &str) {
            assert!(line.ends_with("done before"), "{line}");
        }
    }
    let (_root, config, report) = finished_run();
    let mut counting = Counting(0);
    assert_eq!(run(&config, &mut counting).unwrap(), report);
    assert_eq!(counting.0, 0);
}

#[test]
fn changed_settings_or_inputs_are_refused() {
    let (_root, config, _) = finished_run();
    let other = run_config(&config.run_dir, &["self_play.temperature=0.5"]);
    let said = run(&other, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("`self_play.temperature` = 1.0, but it is now 0.5"), "{said}");

    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("model");
    copy_folder(&base().1, &copy);
    // The same model at another path is the same input …
    let moved = run_config(&config.run_dir, &[&format!("base_model={}", copy.display())]);
    run(&moved, &mut Silent).unwrap();
    // … another model at the same path is not.
    let mut weights = fs::read(copy.join("model.safetensors")).unwrap();
    *weights.last_mut().unwrap() ^= 1;
    fs::write(copy.join("model.safetensors"), weights).unwrap();
    let said = run(&moved, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("`base_model`"), "{said}");
}

#[test]
fn inputs_that_name_no_rule_of_utterances_trimmed_them() {
    let (_root, config, _) = finished_run();
    let inputs = config.run_dir.join("inputs.json");
    let text = fs::read_to_string(&inputs).unwrap();
    let noted = text.replace("\"utterances\": \"as-decoded\",", "");
    assert_ne!(noted, text);
    fs::write(&inputs, noted).unwrap();
    let said = run(&config, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("`utterances` = trimmed, but it is now as-decoded"), "{said}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn second_run_in_the_same_folder_is_refused() {
    /// Starts the same run while it is running.
    struct RunAgain(RunConfig, Option<Error>);
    impl Progress for RunAgain {
        fn begin(&mut self, _: &str, _: u64) {
            if self.1.is_none() {
                self.1 = Some(run(&self.0, &mut Silent).unwrap_err());
            }
        }
        fn advance(&mut self, _: u64, _: &str) {}
        fn end(&mut self) {}
    }
    let root = tempfile::tempdir().unwrap();
    let config = run_config(&root.path().join("locked"), &[]);
    // The lock file of an ended process has no effect.
    fs::create_dir_all(&config.run_dir).unwrap();
    fs::write(config.run_dir.join("lock"), "4194304\n").unwrap();
    let mut again = RunAgain(config.clone(), None);
    run(&config, &mut again).unwrap();
    let said = again.1.unwrap().to_string();
    assert!(said.contains(&format!("process {} is running here", std::process::id())), "{said}");
}

#[test]
fn games_of_another_run_are_refused() {
    let (_root, config, _) = finished_run();
    fs::remove_file(config.run_dir.join("spag-1/done.json")).unwrap();
    let path = config.run_dir.join("spag-1/episodes.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"seed\":", "\"seed\":1", 1)).unwrap();
    let said = run(&config, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("row 1: no game of this run"), "{said}");
}

#[test]
fn run_folder_that_cannot_be_written_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let said = run(&run_config(&file.join("run"), &[]), &mut Silent).unwrap_err().to_string();
    assert!(said.contains("could not create this run folder"), "{said}");
}

#[test]
fn words_missing_in_the_lexicon_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let words = root.path().join("words.txt");
    fs::write(&words, "tiger\nunicorn\n").unwrap();
    let config = run_config(&root.path().join("words"), &[&format!("words.file={}", words.display())]);
    let said = run(&config, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("\"unicorn\""), "{said}");
}

#[test]
fn base_model_is_reproducible() {
    let (_, first, report) = base();
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("model");
    let again = make_base(&base_config(folder.path(), &second), &mut Silent).unwrap();
    assert_eq!((again.tokens, &again.quality), (report.tokens, &report.quality));
    assert!(matches!(&report.quality, BaseQuality::World(world) if world.whole_target_words.count == 8), "{report:?}");
    assert!(report.last_loss < 0.5 * report.first_loss, "{report:?}");
    for file in ["tokenizer.json", "tokenizer_config.json", "config.json", "model.safetensors"] {
        assert!(fs::read(first.join(file)).unwrap() == fs::read(second.join(file)).unwrap(), "{file} differs");
    }
}

#[test]
fn base_model_learns_to_play_legally_from_random_games() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("base.toml");
    let text = r#"
games = ["kuhn-poker rounds=1 bets_count=true", "nim piles=[2,2]"]
[tokenizer]
pieces = 220
documents = 600
split = "phrases"
[model]
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 2
max_position_embeddings = 256
[documents]
count = 3200
answers = 0.5
[train]
per_device_train_batch_size = 16
learning_rate = 5e-3
max_length = 256
[probes]
count = 20
"#;
    fs::write(&file, text).unwrap();
    let made = |name: &str| {
        let overrides = [format!("output_dir={}", folder.path().join(name).display())];
        make_base(&BaseConfig::load(&file, &overrides).unwrap(), &mut Silent).unwrap()
    };
    let (first, second) = (made("first"), made("second"));
    assert_eq!((first.tokens, &first.quality), (second.tokens, &second.quality));
    let BaseQuality::Games { games } = &first.quality else { panic!("{first:?}") };
    // An untrained model says an action of several tokens with a probability near 0. Nim, where piles run out, is harder to learn
    // than the two actions of a decision of Kuhn poker.
    let invalid: Vec<f64> = games.values().map(GameMeter::invalid).collect();
    assert!(invalid.len() == 2 && invalid[0] < 0.2 && invalid[1] < 0.7, "{games:?}");

    let refused = ["games=[\"liars-dice\"]".to_owned(), format!("output_dir={}", folder.path().join("x").display())];
    let error = make_base(&BaseConfig::load(&file, &refused).unwrap(), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("liars-dice has no list of legal actions"), "{error}");
}

#[test]
fn benchmarks_of_every_model_are_in_the_report_and_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let plain = run_config(&folder.path().join("run"), &[]);
    let before = run(&plain, &mut Silent).unwrap();
    let old = contents(&plain.run_dir);
    // A finished run gets them later.
    let config =
        run_config(&plain.run_dir, &["benchmarks.tasks=tiny", "benchmarks.limit=8", "benchmarks.whole=[\"last\"]"]);
    let report = run(&config, &mut Silent).unwrap();
    let names: Vec<&str> = report.benchmarks.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["base", "IM", "SPAG-1"]);
    for model in &report.benchmarks {
        assert_eq!(model.tasks.len(), 5);
        assert!(model.tasks.iter().all(|task| (task.rows == 8) == (model.name != "SPAG-1")), "{model:?}");
        // Compared with the base model on the rows that both answered: the tasks, and all of their rows.
        let rows: Vec<usize> = model.paired.iter().map(|paired| paired.rows).collect();
        assert_eq!(rows, if model.name == "base" { vec![] } else { vec![8, 8, 8, 8, 8, 40] });
        let all = model.paired.last().map_or((0, 0), |all| (all.better, all.worse));
        let each = model.paired.iter().take(5).fold((0, 0), |sum, one| (sum.0 + one.better, sum.1 + one.worse));
        assert_eq!(all, each);
    }
    let page = fs::read_to_string(config.run_dir.join("report.html")).unwrap();
    let text = fs::read_to_string(config.run_dir.join("report.txt")).unwrap();
    let document = Document::of_html(&page).unwrap();
    let benchmarks = document.sections.iter().find(|section| section.heading == "Benchmarks").unwrap();
    let Part::Charts(radar) = &benchmarks.parts[0] else { panic!("{benchmarks:?}") };
    let polygons: Vec<&str> = radar[0].series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(polygons, ["base", "IM", "SPAG-1", "chance"]);
    assert!(text.contains("\nBenchmarks") && text.contains("two steps"), "{text}");
    assert!(text.contains("Against the first model") && page.contains("Against the first model"), "{text}");
    // Everything else stays as it was.
    let (mut expected, mut rest) = (before.clone(), report.clone());
    (expected.stages, rest.stages) = (Vec::new(), Vec::new());
    rest.benchmarks.clear();
    rest.files.retain(|(path, _)| path != "benchmarks");
    assert_eq!(rest, expected);
    let mut new = contents(&config.run_dir);
    new.retain(|name, _| !name.starts_with("benchmarks") && !["report.json", "stages.json"].contains(&name.as_str()));
    assert!(new.iter().all(|(name, values)| old.get(name) == Some(values)) && new.len() + 2 == old.len());
    // Nothing is computed again.
    let results = fs::read(config.run_dir.join("benchmarks/SPAG-1/results.json")).unwrap();
    let record = config.run_dir.join("benchmarks/SPAG-1/record_tiny_facts.jsonl");
    let lines = fs::read_to_string(&record).unwrap();
    assert_eq!(run(&config, &mut Silent).unwrap().benchmarks, report.benchmarks);
    assert_eq!(fs::read(config.run_dir.join("benchmarks/SPAG-1/results.json")).unwrap(), results);
    assert_eq!(fs::read_to_string(&record).unwrap(), lines);
}
