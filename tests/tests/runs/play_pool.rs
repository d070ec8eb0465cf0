//! `spag-play` with a pool of servers: one dies during the run, and the run is continued on others.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use spag_tests::{Answer, Received, Running, Server, json, json_lines, play_command, reserve_port, run, wait_until};

const WORDS: [&str; 6] = ["bear", "frog", "goat", "lemon", "lion", "tiger"];
const GAMES: usize = 40 * WORDS.len();

/// The servers against themselves.
fn play(dir: &Path, servers: &str) -> Command {
    fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    let player = format!("openai:{servers}#big-model");
    let mut command = play_command(dir, &player, &player);
    command.env_remove("OPENAI_API_KEY").args(["--taboo_max_turns", "2", "--requests_in_flight", "4"]);
    command.args(["--games_per_word", "40"]);
    command
}

/// Servers of one model say the same.
fn clue(request: &Received) -> Answer {
    Answer::says(&format!("Clue number {}.", request.seed())).after(Duration::from_millis(4))
}

fn output(dir: &Path, ending: &str) -> Value {
    json(dir.join(format!("out/llama_sampling_words_{ending}")))
}

/// A folder of the games of two healthy servers.
fn healthy() -> tempfile::TempDir {
    let work = tempfile::tempdir().unwrap();
    let servers = [Server::start(clue), Server::start(clue)];
    let [one, two] = servers.each_ref().map(Server::base_url);
    run(&mut play(work.path(), &format!("{one},{two}")), 0);
    let counts = servers.each_ref().map(|server| server.received().len());
    assert_eq!(counts.iter().sum::<usize>(), 4 * GAMES);
    assert!(counts.iter().all(|count| *count >= GAMES), "{counts:?}");
    assert!(servers.iter().all(|server| server.most_at_once() <= 4));
    let run = &output(work.path(), "summary.json")["this_run"]["players"]["both"];
    assert_eq!((run["requests"].as_u64(), run["retries"].as_u64()), (Some(4 * GAMES as u64), Some(0)));
    work
}

#[test]
fn killed_server_loses_no_game_and_other_servers_continue() {
    let whole = healthy();

    // One server breaks every connection from its hundredth request on; a third URL never had a server.
    let dying = Server::start(|request| match request.number {
        ..100 => clue(request),
        _ => Answer { torn_at: Some(10), ..clue(request) },
    });
    let living = Server::start(clue);
    let absent = format!("http://127.0.0.1:{}/v1", reserve_port());
    let work = tempfile::tempdir().unwrap();
    let servers = format!("{},{},{absent}", dying.base_url(), living.base_url());
    let (out, err) = run(&mut play(work.path(), &servers), 0);
    assert!(out.contains(&format!("{GAMES} games in")) && !err.contains("failed 1"), "{out}{err}");
    for url in [dying.base_url(), absent] {
        let of_url = || err.lines().filter(|line| line.starts_with("note: ") && line.contains(&url));
        let count = |ending: &str| of_url().filter(|line| line.ends_with(ending)).count();
        // An answer to an earlier request may come after a connection was broken.
        let again = count("answers again");
        assert_eq!(count("its turns go to the other URLs of the pool"), 1 + again, "{err}");
    }
    assert!(output(work.path(), "results.json") == output(whole.path(), "results.json"), "the games do not differ");

    // Stopped in the middle, and continued by other servers, of which there is one only.
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let slow = Arc::new(AtomicBool::new(false));
    let state = slow.clone();
    let rule = move |request: &Received| {
        let delay = if state.load(Ordering::SeqCst) { Duration::from_secs(60) } else { Duration::ZERO };
        clue(request).after(delay)
    };
    let servers = [Server::start(rule.clone()), Server::start(rule)];
    let [one, two] = servers.each_ref().map(Server::base_url);
    let running = Running::start_quietly(&mut play(dir, &format!("{one},{two}")));
    let record = dir.join("out/llama_sampling_words_rank0.jsonl");
    let lines = || fs::read(&record).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
    wait_until("some games are played", Duration::from_secs(300), || lines() >= 10);
    slow.store(true, Ordering::SeqCst);
    assert!(running.kill_after(Duration::from_millis(50)).is_none(), "it was killed");
    let before = lines();
    assert!((10..GAMES).contains(&before), "{before}");
    let other = Server::start(clue);
    let (_, err) = run(&mut play(dir, &format!("{},", other.base_url())), 0);
    assert!(err.contains(&format!("{before} of {GAMES} games are in out already")), "{err}");
    assert_eq!(other.received().len(), 4 * (GAMES - before));
    assert!(output(dir, "results.json") == output(whole.path(), "results.json"), "the games do not differ");
    let games = json_lines(&record);
    let players = games[0]["players"].as_str().unwrap();
    let pool = "openai:pool#big-model with top_k 50 where accepted";
    assert!(players.starts_with(&format!("attacker={pool}; defender={pool}; ")), "{players}");

    // Another model, or a single URL, is another player.
    let url = other.base_url();
    for player in [format!("openai:{url},#other-model"), format!("openai:{url}#big-model")] {
        let mut command = play_command(dir, &player, &player);
        let (_, err) = run(command.args(["--taboo_max_turns", "2", "--games_per_word", "40"]), 2);
        assert!(err.contains("then attacker=openai:pool#big-model"), "{err}");
    }
}
