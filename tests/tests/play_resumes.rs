//! The real `spag-play`: killed at random moments, spread over processes, stopped by signals; always the same games.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spag_tests::{program, root, run};

const WORDS: [&str; 12] =
    ["bear", "beaver", "frog", "goat", "hippo", "horse", "lion", "mouse", "tiger", "piano", "lemon", "train"];

/// The command of every test, in a folder with a list of words; games are short but many enough to be interrupted.
fn play(dir: &Path, games_per_word: usize) -> Command {
    let model = root().join("data/tiny-llama");
    // Once: another process may be reading it.
    if !dir.join("words.txt").exists() {
        fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    }
    let mut command = program("spag-play");
    command.current_dir(dir).env("RAYON_NUM_THREADS", "1");
    command.arg("--attacker_model_name_or_path").arg(&model).arg("--defender_model_name_or_path").arg(&model);
    command.args(["--data_path", "words.txt", "--output_dir", "out", "--model_prefix", "im", "--max_new_tokens", "8"]);
    command.args(["--taboo_max_turns", "3", "--per_device_eval_batch_size", "8"]);
    command.arg("--games_per_word").arg(games_per_word.to_string());
    // Short wordings: what is played does not matter here.
    command.arg("--prompts").arg(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"));
    command
}

/// The command as process `rank` of `of`.
fn rank(dir: &Path, games_per_word: usize, rank: usize, of: usize) -> Command {
    let mut command = play(dir, games_per_word);
    for (name, value) in [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", of), ("MASTER_PORT", 29500)] {
        command.env(name, value.to_string());
    }
    command.env("MASTER_ADDR", "127.0.0.1");
    command
}

fn quietly(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn file(dir: &Path, ending: &str) -> PathBuf {
    dir.join("out").join(format!("im_sampling_words_{ending}"))
}

fn results(dir: &Path) -> Vec<u8> {
    fs::read(file(dir, "results.json")).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The summary without what belongs to one process's run.
fn summary(dir: &Path) -> Value {
    let mut summary = json(&file(dir, "summary.json"));
    assert!(summary.as_object_mut().unwrap().remove("this_run").is_some());
    summary
}

/// How often each game stands in the records of all ranks.
fn recorded(dir: &Path) -> BTreeMap<u64, usize> {
    let mut games = BTreeMap::new();
    for entry in fs::read_dir(dir.join("out")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            for line in fs::read_to_string(&path).unwrap().split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let game: Value = serde_json::from_str(line).unwrap();
                *games.entry(game["game"].as_u64().unwrap()).or_default() += 1;
            }
        }
    }
    games
}

fn each_once(games: usize) -> BTreeMap<u64, usize> {
    (0..games as u64).map(|game| (game, 1)).collect()
}

/// Waits until so many games are recorded.
fn wait_for_games(dir: &Path, games: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !dir.join("out").exists() || recorded(dir).len() < games {
        assert!(Instant::now() < deadline, "the games do not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_at_twenty_moments_it_ends_with_the_same_bytes() {
    const EACH: usize = 8;
    let whole = tempfile::tempdir().unwrap();
    let started = Instant::now();
    run(&mut play(whole.path(), EACH), 0);
    let took = started.elapsed();
    assert_eq!(recorded(whole.path()), each_once(WORDS.len() * EACH));
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (mut killed, mut in_the_middle, mut rounds) = (0, 0, 0);
    while killed < 20 {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path();
        loop {
            let mut child = quietly(play(dir, EACH));
            // Any moment from the first instruction to well into the run.
            std::thread::sleep(took.mul_f64(rng.random_range(0.0..0.5)));
            let ended = child.try_wait().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            if let Some(status) = ended {
                assert!(status.success(), "it failed before it was killed");
                break;
            }
            killed += 1;
            let there = if dir.join("out").exists() { recorded(dir).len() } else { 0 };
            in_the_middle += usize::from(there > 0 && there < WORDS.len() * EACH);
            if killed == 20 {
                break;
            }
        }
        let (_, err) = run(&mut play(dir, EACH), 0);
        assert!(!err.contains("error"), "{err}");
        assert!(results(dir) == results(whole.path()), "results.json differs");
        assert_eq!(summary(dir), summary(whole.path()));
        assert_eq!(recorded(dir), each_once(WORDS.len() * EACH), "no game is played twice");
        rounds += 1;
    }
    assert!(in_the_middle >= 3, "{in_the_middle} of {killed} kills in {rounds} rounds met a run with some games");
}

#[test]
fn one_two_and_three_processes_play_the_same_games_each_once() {
    let works: Vec<_> = (1..=3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (work, of) in works.iter().zip(1..) {
        let dir = work.path();
        let children: Vec<Child> = (0..of).map(|each| quietly(rank(dir, 2, each, of))).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(recorded(dir), each_once(24));
        for each in 0..of {
            let lines = fs::read_to_string(file(dir, &format!("rank{each}.jsonl"))).unwrap();
            let numbers =
                lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["game"].as_u64().unwrap());
            assert!(numbers.into_iter().all(|game| game as usize % of == each));
        }
        assert!(results(dir) == results(works[0].path()), "{of} processes");
        assert_eq!(summary(dir), summary(works[0].path()));
    }
}

#[test]
fn begun_by_three_killed_and_finished_by_two() {
    const EACH: usize = 10;
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let mut three: Vec<Child> = (0..3).map(|each| quietly(rank(dir, EACH, each, 3))).collect();
    wait_for_games(dir, 10);
    // As long as one of the three is there whom the two do not have, they do not begin.
    let mut last = three.pop().unwrap();
    for child in &mut three {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if last.try_wait().unwrap().is_none() && file(dir, "rank2.jsonl").exists() {
        let mut early = rank(dir, EACH, 0, 2);
        let output = early.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        // It may have ended meanwhile.
        assert!(output.status.success() || err.contains("rank2.jsonl: another run is writing"), "{err}");
    }
    last.kill().unwrap();
    last.wait().unwrap();
    assert!(recorded(dir).len() < WORDS.len() * EACH, "all was played before the kill");
    // A line that the kill tore, of a rank that there is no more.
    let torn = file(dir, "rank2.jsonl");
    let mut bytes = fs::read(&torn).unwrap_or_default();
    bytes.extend_from_slice(b"{\"history\": [{\"role\": \"atta");
    fs::write(&torn, &bytes).unwrap();

    // The one that is done first says who is still at work, or finds the other's games missing; the last one writes.
    let two: Vec<Child> = (0..2)
        .map(|each| rank(dir, EACH, each, 2).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for child in two {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let alone = tempfile::tempdir().unwrap();
    run(&mut play(alone.path(), EACH), 0);
    assert!(results(dir) == results(alone.path()));
    assert_eq!(recorded(dir), each_once(WORDS.len() * EACH));
    assert_eq!(fs::read(&torn).unwrap(), bytes, "the record of a rank that is no more is left as it is");
}

#[test]
fn a_process_whose_companions_are_missing_says_so() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let (out, err) = run(&mut rank(dir, 1, 1, 3), 0);
    assert!(out.contains("4 games in") && out.contains("rank 1 of 3: 4 games"), "{out}");
    assert!(err.contains("8 games of other ranks are missing"), "{err}");
    assert_eq!(json(&file(dir, "summary.json"))["missing"], 8);
    assert_eq!(json(&file(dir, "results.json")).as_array().unwrap().len(), 4);
    // While another one is at work, it writes nothing.
    let other = fs::File::open(file(dir, "rank1.jsonl")).unwrap();
    other.lock().unwrap();
    fs::remove_file(file(dir, "results.json")).unwrap();
    let (out, _) = run(&mut rank(dir, 1, 0, 3), 0);
    assert!(out.contains("still at work: rank 1"), "{out}");
    assert!(!file(dir, "results.json").exists());
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_in_order_and_the_same_command_goes_on() {
    const EACH: usize = 20;
    for (signal, code, name) in [("INT", 130, "SIGINT"), ("TERM", 143, "SIGTERM")] {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path();
        let child = play(dir, EACH).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_games(dir, 5);
        assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{out}{err}");
        let games = recorded(dir).len();
        assert!((5..WORDS.len() * EACH).contains(&games), "{games}");
        assert!(err.contains(&format!("stopped by {name}; {games} of 240 games")) && !err.contains("error"), "{err}");
        assert!(out.contains(&format!("{games} of 240 games so far")) && out.contains("attacker wins"), "{out}");
        let lines = fs::read_to_string(file(dir, "rank0.jsonl")).unwrap();
        assert!(lines.ends_with('\n'), "the line in flight was finished");
        assert!(!file(dir, "results.json").exists());
        if signal == "INT" {
            let (_, err) = run(&mut play(dir, EACH), 0);
            assert!(err.contains(&format!("{games} of 240 games are in out already")), "{err}");
            assert_eq!(recorded(dir), each_once(240));
        }
    }
}

/// A pipe in place of the word list holds the program up where nobody looks at signals.
#[cfg(unix)]
#[test]
fn a_second_interrupt_ends_it_at_once() {
    let work = tempfile::tempdir().unwrap();
    let pipe = work.path().join("words.txt");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = quietly(play(work.path(), 1));
    // Comes back once the program has opened it, too; by then it listens.
    let _words = fs::File::options().write(true).open(&pipe).unwrap();
    let id = child.id().to_string();
    let interrupt = || assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    interrupt();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None, "the first one only asks");
    interrupt();
    let deadline = Instant::now() + Duration::from_secs(20);
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < deadline, "it waits for its words"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(ended.code(), Some(130));
}

#[test]
fn decided_games_stop_or_are_played_on() {
    let (stopped, on) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(&mut play(stopped.path(), 3), 0);
    run(play(on.path(), 3).arg("--play_on"), 0);
    let histories = |dir: &Path| -> Vec<Vec<Value>> {
        let games = json(&file(dir, "results.json"));
        games.as_array().unwrap().iter().map(|game| game["history"].as_array().unwrap().clone()).collect()
    };
    let (stopped_games, on_games) = (histories(stopped.path()), histories(on.path()));
    assert!(stopped_games.iter().any(|game| game.len() < 6), "some games have to be decided early");
    for (stopped, on) in stopped_games.iter().zip(&on_games) {
        assert_eq!((on.len(), &on[..stopped.len()]), (6, &stopped[..]));
    }
    // What is said of the games does not depend on it.
    assert_eq!(summary(stopped.path()), summary(on.path()));
    // The two kinds are not mixed.
    let (_, err) = run(play(stopped.path(), 3).args(["--play_on", "True"]), 2);
    assert!(err.contains("play_on"), "{err}");
}
