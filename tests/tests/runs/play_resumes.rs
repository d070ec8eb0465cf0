//! `spag-play` killed at random moments, on several ranks, and stopped by signals: the games stay the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spag_tests::{Ranks, Running, json, play_command, root, run, send_signal, wait_until};

const WORDS: [&str; 12] =
    ["bear", "beaver", "frog", "goat", "hippo", "horse", "lion", "mouse", "tiger", "piano", "lemon", "train"];

/// The command of every test in a folder with a word list. The games are short, and enough to be interrupted.
fn play(dir: &Path, games_per_word: usize) -> Command {
    let model = root().join("data/tiny-llama");
    // Written once, because another process may be reading it.
    if !dir.join("words.txt").exists() {
        fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    }
    let mut command = play_command(dir, &model, &model);
    command.args(["--model_prefix", "im", "--taboo_max_turns", "3", "--per_device_eval_batch_size", "8"]);
    command.arg("--games_per_word").arg(games_per_word.to_string());
    command
}

fn file(dir: &Path, ending: &str) -> PathBuf {
    dir.join("out").join(format!("im_sampling_words_{ending}"))
}

fn results(dir: &Path) -> Vec<u8> {
    fs::read(file(dir, "results.json")).unwrap()
}

/// The summary without the part about the last run.
fn summary(dir: &Path) -> Value {
    let mut summary = json(file(dir, "summary.json"));
    assert!(summary.as_object_mut().unwrap().remove("this_run").is_some());
    summary
}

/// How often each game is in the records of all ranks.
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

/// Waits until `games` games are recorded.
fn wait_for_games(dir: &Path, games: usize) {
    wait_until("games are recorded", Duration::from_secs(300), || {
        dir.join("out").exists() && recorded(dir).len() >= games
    });
}

#[test]
fn killed_ten_times_gives_the_same_bytes() {
    const EACH: usize = 8;
    let whole = tempfile::tempdir().unwrap();
    let started = Instant::now();
    run(&mut play(whole.path(), EACH), 0);
    let took = started.elapsed();
    assert_eq!(recorded(whole.path()), each_once(WORDS.len() * EACH));
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (mut killed, mut in_the_middle, mut rounds) = (0, 0, 0);
    while killed < 10 || in_the_middle < 2 {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path();
        loop {
            // From the first instruction to half of the run.
            let delay = took.mul_f64(rng.random_range(0.0..0.5));
            if let Some(status) = Running::start_quietly(&mut play(dir, EACH)).kill_after(delay) {
                assert!(status.success(), "it failed before it was killed");
                break;
            }
            killed += 1;
            let finished = if dir.join("out").exists() { recorded(dir).len() } else { 0 };
            in_the_middle += usize::from(finished > 0 && finished < WORDS.len() * EACH);
            if killed >= 10 {
                break;
            }
        }
        let (_, err) = run(&mut play(dir, EACH), 0);
        assert!(!err.contains("error"), "{err}");
        assert!(results(dir) == results(whole.path()), "results.json differs");
        assert_eq!(summary(dir), summary(whole.path()));
        assert_eq!(recorded(dir), each_once(WORDS.len() * EACH), "no game is played twice");
        rounds += 1;
        assert!(rounds < 50, "{in_the_middle} of {killed} kills in {rounds} rounds met a run with some games");
    }
}

#[test]
fn one_two_and_three_ranks_play_the_same_games_once() {
    // They take seconds, so that a rank that starts late has some of them.
    const EACH: usize = 20;
    const GAMES: usize = WORDS.len() * EACH;
    let works: Vec<_> = (1..=3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (work, of) in works.iter().zip(1..) {
        let dir = work.path();
        Ranks::start(of, |_| play(dir, EACH)).succeed();
        assert_eq!(recorded(dir), each_once(GAMES));
        for each in 0..of {
            let lines = fs::read_to_string(file(dir, &format!("rank{each}.jsonl"))).unwrap().lines().count();
            assert!(lines > 0, "rank {each} of {of} has played no game");
        }
        assert!(results(dir) == results(works[0].path()), "{of} processes");
        assert_eq!(summary(dir), summary(works[0].path()));
        // A repeated command plays nothing, with any number of ranks.
        for again in [of, of + 1] {
            Ranks::start(again, |_| play(dir, EACH)).succeed();
            assert_eq!(recorded(dir), each_once(GAMES));
            assert!(results(dir) == results(works[0].path()), "{again} processes after {of}");
        }
    }
}

#[test]
fn rank_that_starts_after_the_results_are_written_joins_and_succeeds() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    Ranks::start(1, |_| play(dir, 1)).succeed();
    fs::remove_file(file(dir, "summary.json")).unwrap();
    let ranks = Ranks::start(2, |rank| {
        if rank == 1 {
            wait_until("results", Duration::from_secs(300), || file(dir, "summary.json").exists());
        }
        play(dir, 1)
    });
    // Less than the minute that rank 0 waits for ranks.
    assert!(ranks.ended(Duration::from_secs(40), None).iter().all(|rank| rank.status.success()));
}

const MANY: usize = 12;

#[test]
fn games_of_a_killed_rank_are_played_by_the_others() {
    for victim in [1, 2] {
        // A rank that starts late may find no game left; then there is nothing to kill.
        assert!((0..20).any(|_| is_killed_in_the_middle(victim)), "rank {victim} has never played");
    }
}

/// Kills a rank after its first game. Returns whether games were left then; if so, checks the results.
fn is_killed_in_the_middle(victim: usize) -> bool {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let all = WORDS.len() * MANY;
    let mut ranks = Ranks::start(3, |_| play(dir, MANY));
    let own = file(dir, &format!("rank{victim}.jsonl"));
    let has_played = || fs::read(&own).is_ok_and(|bytes| bytes.contains(&b'\n'));
    wait_until("a game of the rank", Duration::from_secs(300), || {
        has_played() || (dir.join("out").exists() && recorded(dir).len() == all)
    });
    ranks.kill(victim);
    let before = recorded(dir).len();
    let ended = ranks.ended(Duration::from_secs(300), Some(victim));
    if before == all {
        return false;
    }
    for ended in ended {
        assert!(ended.status.success(), "{}", ended.output);
    }
    assert_eq!(recorded(dir).len(), all);
    assert_eq!(json(file(dir, "summary.json"))["missing"], 0);
    assert_eq!(results(dir), whole(MANY));
    true
}

/// The results of one process without interruption.
fn whole(games_per_word: usize) -> Vec<u8> {
    let alone = tempfile::tempdir().unwrap();
    run(&mut play(alone.path(), games_per_word), 0);
    results(alone.path())
}

#[test]
fn losing_rank_0_ends_the_run_and_any_number_of_ranks_resumes() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let mut three = Ranks::start(3, |_| play(dir, MANY));
    wait_for_games(dir, 10);
    three.kill(0);
    for ended in three.ended(Duration::from_secs(300), Some(0)) {
        assert!(!ended.status.success() && ended.output.contains("rank 0"), "{}", ended.output);
    }
    assert!(recorded(dir).len() < WORDS.len() * MANY, "all games were played before the kill");
    // A torn last line in the record of a rank that is not started again.
    let torn = file(dir, "rank2.jsonl");
    let mut bytes = fs::read(&torn).unwrap_or_default();
    bytes.extend_from_slice(b"{\"history\": [{\"role\": \"atta");
    fs::write(&torn, &bytes).unwrap();
    Ranks::start(2, |_| play(dir, MANY)).succeed();
    assert_eq!(results(dir), whole(MANY));
    assert_eq!(recorded(dir), each_once(WORDS.len() * MANY));
    assert_eq!(fs::read(&torn).unwrap(), bytes, "the record of a missing rank is unchanged");
}

#[test]
fn ranks_with_other_settings_are_named() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    play(dir, 1);
    let ranks = Ranks::start(2, |rank| play(dir, 1 + rank));
    for ended in ranks.ended(Duration::from_secs(300), None) {
        assert!(!ended.status.success() && ended.output.contains("rank 1"), "{}", ended.output);
    }
    // A folder in use by another run with more ranks is refused.
    let other = fs::File::create(file(dir, "rank5.jsonl")).unwrap();
    other.lock().unwrap();
    let (_, err) = run(&mut play(dir, 1), 1);
    assert!(err.contains("rank5.jsonl: another run is writing"), "{err}");
}

#[cfg(unix)]
#[test]
fn signal_stops_after_the_current_line_and_the_command_resumes() {
    const EACH: usize = 20;
    for (signal, code, name) in [("INT", 130, "SIGINT"), ("TERM", 143, "SIGTERM")] {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path();
        let child = play(dir, EACH).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_games(dir, 5);
        send_signal(child.id(), signal);
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

#[cfg(unix)]
#[test]
fn signal_gives_its_exit_code_without_a_reader_of_stdout() {
    for redirection in ["pipe", "/dev/full"] {
        let work = tempfile::tempdir().unwrap();
        let mut command = play(work.path(), 20);
        match redirection {
            "pipe" => command.stdout(Stdio::piped()),
            file => command.stdout(fs::File::options().write(true).open(file).unwrap()),
        };
        let mut child = Running::start(command.stderr(Stdio::null()));
        drop(child.stdout.take());
        wait_for_games(work.path(), 5);
        send_signal(child.id(), "TERM");
        let status = child.wait_for(Duration::from_secs(300)).expect("it exits");
        assert_eq!(status.code(), Some(143), "{redirection}");
        assert!(recorded(work.path()).len() < 240);
    }
}

/// A named pipe as the word list blocks the program in a read, where it does not check for signals.
#[cfg(unix)]
#[test]
fn second_interrupt_exits_at_once() {
    let work = tempfile::tempdir().unwrap();
    let pipe = work.path().join("words.txt");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = Running::start_quietly(&mut play(work.path(), 1));
    // Returns when the program has opened the pipe too; its signal handlers are installed by then.
    let _words = fs::File::options().write(true).open(&pipe).unwrap();
    send_signal(child.id(), "INT");
    assert_eq!(child.wait_for(Duration::from_millis(200)), None, "the first signal does not exit");
    send_signal(child.id(), "INT");
    assert_eq!(child.wait_for(Duration::from_secs(300)).expect("it exits").code(), Some(130));
}

#[test]
fn play_on_continues_decided_games_to_a_guess_of_the_defender_or_the_last_turn() {
    let (stopped, on) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(&mut play(stopped.path(), 3), 0);
    run(play(on.path(), 3).arg("--play_on"), 0);
    let histories = |dir: &Path| -> Vec<Vec<Value>> {
        let games = json(file(dir, "results.json"));
        games.as_array().unwrap().iter().map(|game| game["history"].as_array().unwrap().clone()).collect()
    };
    let (stopped_games, on_games) = (histories(stopped.path()), histories(on.path()));
    assert!(stopped_games.iter().any(|game| game.len() < 6), "some games are decided early");
    let is_guess = |utterance: &Value| {
        let text = utterance["content"].as_str().unwrap().to_lowercase();
        utterance["role"] == "defender" && text.contains("i know the word")
    };
    for (stopped, on) in stopped_games.iter().zip(&on_games) {
        assert_eq!(on[..stopped.len()], stopped[..]);
        let guess = on.iter().position(is_guess).map_or(6, |at| at + 1);
        assert_eq!(on.len(), guess, "{on:?}");
    }
    let longer = stopped_games.iter().zip(&on_games).filter(|(stopped, on)| on.len() > stopped.len());
    assert!(longer.count() > 0, "some decided games go on");
    // The summary does not depend on it.
    assert_eq!(summary(stopped.path()), summary(on.path()));
    // The two settings are not mixed in one record.
    let (_, err) = run(play(stopped.path(), 3).args(["--play_on", "True"]), 2);
    assert!(err.contains("play_on"), "{err}");
}
