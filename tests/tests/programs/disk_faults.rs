//! Disk errors at the calls of small runs that create, write, sync, cut or rename a file: the exit code and message are
//! right, no temporary file stays, nothing that was finished is lost, and the same command then gives the same results.
//!
//! `faults/inject.c` makes the calls fail; it is loaded into the programs by LD_PRELOAD. Each distinct call of a program is
//! tried once (of `spag run`, every fourth); `SPAG_FAULTS=all` tries every one in every way.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use spag_tests::{copy_folder, program, root, run};
use tempfile::TempDir;

/// The library that makes calls fail, compiled once.
fn injector() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("inject.so");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(root().join("tests/faults/inject.c"));
        run(compile.arg("-ldl"), 0);
        (folder, library)
    });
    library
}

/// A command and what it leaves.
struct Case {
    arguments: &'static str,
    /// What a run that follows a failed one needs, beside the same command.
    again: &'static str,
    /// Whether a file, by its path in the folder, has the same bytes after every run.
    is_result: fn(&str) -> bool,
    /// One of so many distinct calls is tried.
    stride: usize,
}

const MODELS: &str = "--attacker_model_name_or_path model --defender_model_name_or_path model";

/// The folder of all cases: a model, words, and the games and samples of a small run.
fn inputs() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        copy_folder(root().join("data/tiny-llama"), dir.join("model"));
        fs::copy(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"), dir.join("prompts.json")).unwrap();
        fs::write(dir.join("words.txt"), "horse\nlion\n").unwrap();
        fs::write(dir.join("in.jsonl"), "{\"prompt\": \"The lion\"}\n").unwrap();
        let mut settings = fs::read_to_string(root().join("configs/tiny.toml")).unwrap();
        for (old, new) in [
            ("\"data/tiny-llama\"", "\"model\""),
            ("\"configs/tiny-prompts.json\"", "\"prompts.json\""),
            ("\"runs/tiny\"", "\"run\""),
            ("\nepochs = 3 ", "\nepochs = 1 "),
            ("games = 2400", "games = 24"),
            ("games = 1440", "games = 12"),
            ("max_new_tokens = 24 ", "max_new_tokens = 8 "),
            ("games = 600", "games = 2"),
            ("self_play_games = 300", "self_play_games = 2"),
            ("tasks = \"tiny\" ", "limit = 1\ntasks = \"tiny\" "),
        ] {
            assert!(settings.contains(old), "configs/tiny.toml has changed: {old}");
            settings = settings.replace(old, new);
        }
        fs::write(dir.join("run.toml"), settings).unwrap();
        let games = ["--run_dir", "imitated"];
        run(program("spag").current_dir(dir).args(["run", "run.toml", "--set", "run_dir=imitated"]), 0);
        fs::rename(dir.join(games[1]).join("im/episodes.jsonl"), dir.join("episodes.jsonl")).unwrap();
        fs::remove_dir_all(dir.join("imitated")).unwrap();
        let mut rewards = program("spag-assign-rewards");
        rewards.args(["--input_data_path", "episodes.jsonl", "--output_data_path", "samples.json"]);
        run(rewards.current_dir(dir), 0);
        folder
    });
    folder.path()
}

/// A fresh folder with the inputs.
fn fresh() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(inputs(), folder.path());
    copy_folder(inputs().join("model"), folder.path().join("model"));
    folder
}

fn command(case: &Case, dir: &Path) -> Command {
    let mut words = case.arguments.split_whitespace();
    let mut command = program(words.next().unwrap());
    command.args(words).current_dir(dir).env("RAYON_NUM_THREADS", "1");
    command
}

/// The files of a folder, by their paths in it.
fn files(dir: &Path) -> BTreeSet<String> {
    let (mut files, mut folders) = (BTreeSet::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(dir).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    files
}

fn results(case: &Case, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let found = files(dir).into_iter().filter(|file| (case.is_result)(file));
    found.map(|file| (file.clone(), fs::read(dir.join(file)).unwrap())).collect()
}

fn assert_same(got: &BTreeMap<String, Vec<u8>>, want: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>(), "{what}");
    for (file, bytes) in want {
        assert!(got[file] == *bytes, "{what}: {file} differs");
    }
}

/// Runs a command whose call number `at` fails.
fn with_fault(case: &Case, dir: &Path, at: usize, mode: &str) -> Output {
    let mut command = command(case, dir);
    command.env("LD_PRELOAD", injector()).env("FAULT_DIR", dir).env("FAULT_AT", at.to_string()).env("FAULT_MODE", mode);
    command.output().unwrap()
}

/// Parts of paths for which the same code writes the same files: tasks and models of the benchmarks, pairs of models that play.
const ALIKE: [&str; 12] = [
    "facts",
    "which_has",
    "odd_one_out",
    "negation",
    "two_step",
    "/base/",
    "/IM/",
    "/SPAG-1/",
    "im-vs-im",
    "im-vs-spag-1",
    "spag-1-vs-im",
    "spag-1-vs-spag-1",
];

/// What a call does to which file, apart from numbers in names and from [`ALIKE`].
fn kind(call: &str) -> String {
    let call = ALIKE.iter().fold(call.to_owned(), |call, part| call.replace(part, "*"));
    call.replace(|c: char| c.is_ascii_hexdigit(), "")
}

/// The numbers of the calls to try: the first of each kind.
fn calls_to_try(log: &str, stride: usize) -> Vec<usize> {
    let mut kinds = BTreeSet::new();
    let is_new = |line: &&str| {
        let (_, call) = line.split_once(' ').unwrap();
        kinds.insert(kind(call))
    };
    let every = std::env::var("SPAG_FAULTS").is_ok_and(|which| which == "all");
    let lines: Vec<&str> = if every { log.lines().collect() } else { log.lines().filter(is_new).collect() };
    let number = |line: &str| line.split(' ').next().unwrap().parse().unwrap();
    lines.into_iter().step_by(if every { 1 } else { stride }).map(number).collect()
}

fn survives_disk_errors(case: &Case) {
    let whole = fresh();
    let log = whole.path().join("calls.log");
    let mut counted = command(case, whole.path());
    run(counted.env("LD_PRELOAD", injector()).env("FAULT_DIR", whole.path()).env("FAULT_LOG", &log), 0);
    let calls = fs::read_to_string(&log).unwrap();
    let want = results(case, whole.path());
    assert!(!want.is_empty());
    let tried = calls_to_try(&calls, case.stride);
    assert!(!tried.is_empty());
    let mut failed = 0;
    for (nth, &at) in tried.iter().enumerate() {
        for (mode, &name) in ["once", "on", "short"].iter().enumerate() {
            // One way each, by turns.
            if nth % 3 != mode && !std::env::var("SPAG_FAULTS").is_ok_and(|which| which == "all") {
                continue;
            }
            let call = calls.lines().nth(at - 1).unwrap_or_default();
            let what = format!("{}: {name} at call {call}", case.arguments);
            let folder = fresh();
            let dir = folder.path();
            let Output { status, stderr, .. } = with_fault(case, dir, at, name);
            let err = String::from_utf8_lossy(&stderr);
            assert!(!err.contains("a fault in this program"), "{what}: {err}");
            match status.code() {
                // The call was not needed, for instance a folder that existed, or that of a chart.
                Some(0) => assert_same(&results(case, dir), &want, &what),
                Some(1) => {
                    failed += 1;
                    assert!(err.contains("error: "), "{what}: {err}");
                    assert!(err.contains("os error") || err.contains("No space left"), "{what} has a cause: {err}");
                    let left: Vec<_> = files(dir).into_iter().filter(|file| file.contains(".tmp")).collect();
                    assert!(left.is_empty(), "{what} leaves {left:?}\n{err}");
                }
                _ => panic!("{what}: {status}\n{err}"),
            }
            let mut again = command(case, dir);
            run(again.args(case.again.split_whitespace()), 0);
            assert_same(&results(case, dir), &want, &what);
        }
    }
    assert!(failed * 3 > tried.len(), "only {failed} of {} disk errors were noticed", tried.len());
}

#[test]
fn rewards_and_prompts_survive_disk_errors() {
    survives_disk_errors(&Case {
        arguments: "spag-assign-rewards --input_data_path episodes.jsonl --output_data_path out/rewarded.json \
                    --outcomes_path out/outcomes.jsonl",
        again: "",
        is_result: |file| file.starts_with("out/"),
        stride: 1,
    });
    survives_disk_errors(&Case {
        arguments: "spag eval --model model --names m --tasks tiny --limit 2 --output_dir out",
        again: "",
        // Answers are recorded in the order in which they come.
        is_result: |file| file.starts_with("out/") && !file.contains("record_") && file != "out/lock",
        stride: 1,
    });
    survives_disk_errors(&Case {
        arguments: "spag generate --model model --input in.jsonl --output out/texts.jsonl --max_new_tokens 4",
        again: "",
        is_result: |file| file.starts_with("out/"),
        stride: 1,
    });
}

#[test]
fn games_survive_disk_errors() {
    let arguments = format!(
        "spag-play {MODELS} --data_path words.txt --output_dir out --prompts prompts.json --max_new_tokens 6 \
         --taboo_max_turns 2 --games_per_word 2"
    );
    survives_disk_errors(&Case {
        arguments: arguments.leak(),
        again: "",
        is_result: |file| file.starts_with("out/") && file.ends_with("_results.json"),
        stride: 1,
    });
    survives_disk_errors(&Case {
        arguments: "spag arena --players A=model B=model --words words.txt --output_dir out --games 2 \
                    --max_new_tokens 4 --prompts prompts.json",
        again: "",
        is_result: |file| file.starts_with("out/") && (file.ends_with(".csv") || file.ends_with("results.json")),
        stride: 1,
    });
}

#[test]
fn training_survives_disk_errors() {
    survives_disk_errors(&Case {
        arguments: "spag-train --model_name_or_path model --ref_model_name_or_path model --train_data_path samples.json \
                    --output_dir out --train_method OfflinePO --max_length 192 --per_device_train_batch_size 2 \
                    --max_steps 4 --save_strategy steps --save_steps 2 --save_total_limit 1 --learning_rate 1e-4 \
                    --lm_kl_coeff 0.1",
        again: "--resume_from_checkpoint latest",
        is_result: |file| file.starts_with("out/") && (file.ends_with(".safetensors") || file.ends_with("state.json")),
        stride: 1,
    });
}

#[test]
fn the_loop_survives_disk_errors() {
    survives_disk_errors(&Case {
        arguments: "spag run run.toml",
        again: "",
        is_result: |file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            file.starts_with("run/")
                && !file.contains("trainer_state")
                && (matches!(name, "episodes.jsonl" | "samples.jsonl" | "model.safetensors")
                    || (file.starts_with("run/eval/") && name.ends_with(".jsonl")))
        },
        stride: 4,
    });
}
