//! `spag-play` with an endpoint (an HTTP server of the test) as attacker and a local model as defender.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use spag_tests::{Answer, Received, Server, json_lines, play_command, root, run};

const WORDS: [&str; 8] = ["bear", "beaver", "frog", "goat", "lemon", "lion", "mouse", "tiger"];

/// The endpoint against the base model, one game per word.
fn play(dir: &Path, server: &Server) -> Command {
    fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    let attacker = format!("openai:{}#big-model", server.base_url());
    let mut command = play_command(dir, attacker, root().join("data/tiny-llama"));
    command.env_remove("OPENAI_API_KEY").args(["--taboo_max_turns", "2"]);
    command
}

fn json(dir: &Path, ending: &str) -> Value {
    spag_tests::json(dir.join(format!("out/llama_sampling_words_{ending}")))
}

fn words(results: &Value) -> Vec<&str> {
    results.as_array().unwrap().iter().map(|game| game["target_word"].as_str().unwrap()).collect()
}

fn clue(request: &Received) -> Answer {
    Answer::says(&format!("Clue number {}.", request.seed()))
}

#[test]
fn endpoint_attacks_and_model_defends() {
    let server = Server::start(clue);
    let work = tempfile::tempdir().unwrap();
    let (out, err) = run(&mut play(work.path(), &server), 0);
    let results = json(work.path(), "results.json");
    assert_eq!(words(&results), WORDS);
    let seeds: Vec<String> =
        server.received().iter().map(|request| format!("Clue number {}.", request.seed())).collect();
    let mut clues = 0;
    for game in results.as_array().unwrap() {
        for (at, utterance) in game["history"].as_array().unwrap().iter().enumerate() {
            let text = utterance["content"].as_str().unwrap().to_owned();
            assert_eq!(seeds.contains(&text), at % 2 == 0, "{text}");
            clues += usize::from(at % 2 == 0);
        }
    }
    // The summary has the work of both players, the log the progress of the games.
    let run = &json(work.path(), "summary.json")["this_run"];
    let (attacker, defender) = (&run["players"]["attacker"], &run["players"]["defender"]);
    assert_eq!((attacker["kind"].as_str(), defender["kind"].as_str()), (Some("endpoint"), Some("model")));
    assert_eq!((attacker["requests"].as_u64(), clues), (Some(seeds.len() as u64), seeds.len()));
    assert_eq!(
        (attacker["retries"].as_u64(), attacker["completion_tokens"].as_u64()),
        (Some(0), Some(3 * seeds.len() as u64))
    );
    assert!(defender["computed_tokens"].as_u64().unwrap() > 0 && run["games_per_s"].as_f64().unwrap() > 0.0);
    assert!(out.contains("8 games in") && out.contains("requests, 0 of them retries"), "{out}");
    assert!(err.contains("games: 0/8") && err.contains("games: 8/8") && err.contains("tokens/s  attacker"), "{err}");
}

#[test]
fn failed_games_are_reported_and_played_again() {
    let works = tempfile::tempdir().unwrap();
    let healthy = works.path().join("healthy");
    fs::create_dir(&healthy).unwrap();
    run(&mut play(&healthy, &Server::start(clue)), 0);

    let failing = Arc::new(AtomicBool::new(true));
    let state = failing.clone();
    let server = Server::start(move |request| {
        // The attacker's prompts contain the word.
        let fails = ["lemon", "lion"].iter().any(|word| request.prompt().contains(&format!("word {word}.")));
        if fails && state.load(Ordering::SeqCst) {
            Answer::error(400, "This prompt is not allowed here")
        } else {
            clue(request)
        }
    });
    let dir = works.path().join("failing");
    fs::create_dir(&dir).unwrap();
    let (out, err) = run(&mut play(&dir, &server), 1);
    assert!(
        err.contains("2 of 8 games failed") && err.contains("_rank0_failed.jsonl") && err.contains("same command"),
        "{err}"
    );
    assert!(err.contains("failed 2") && out.contains("6 games in") && out.contains("2 games failed"), "{err}{out}");
    let mut failed = json_lines(dir.join("out/llama_sampling_words_rank0_failed.jsonl"));
    failed.sort_by_key(|game| game["game"].as_u64());
    for (game, word) in failed.iter().zip(["lemon", "lion"]) {
        assert_eq!((game["target_word"].as_str(), game["role"].as_str()), (Some(word), Some("attacker")));
        assert!(game["reason"].as_str().unwrap().contains("not allowed here"), "{game}");
    }
    assert_eq!(failed.len(), 2);
    let others: Vec<&str> = WORDS.into_iter().filter(|word| !["lemon", "lion"].contains(word)).collect();
    assert_eq!(words(&json(&dir, "results.json")), others);
    assert_eq!(json(&dir, "summary.json")["missing"], 2);

    // The server recovers: only the two failed games are played.
    failing.store(false, Ordering::SeqCst);
    let before = server.received().len();
    run(&mut play(&dir, &server), 0);
    assert!(
        server.received()[before..]
            .iter()
            .all(|request| request.prompt().contains("word lemon.") || request.prompt().contains("word lion."))
    );
    assert!(!dir.join("out/llama_sampling_words_rank0_failed.jsonl").exists());
    // The endpoint's address is part of the players' names. All else equals a run without failures.
    let games = |dir: &Path| {
        let mut games = json(dir, "results.json");
        games.as_array_mut().unwrap().iter_mut().for_each(|game| drop(game.as_object_mut().unwrap().remove("players")));
        games
    };
    assert_eq!(games(&dir), games(&healthy));
}

#[test]
fn failed_games_give_their_exit_code_without_a_reader_of_stdout() {
    let server = Server::start(|request| {
        if request.prompt().contains("word lion.") { Answer::error(400, "No lions") } else { clue(request) }
    });
    let work = tempfile::tempdir().unwrap();
    let mut child = play(work.path(), &server).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("1 of 8 games failed"), "{err}");
}

#[test]
fn failures_in_a_row_end_the_run_and_keep_finished_games() {
    let server =
        Server::start(|request| if request.number < 3 { clue(request) } else { Answer::error(400, "No more today") });
    let work = tempfile::tempdir().unwrap();
    let (_, err) = run(play(work.path(), &server).args(["--max_failed_in_a_row", "4", "--requests_in_flight", "1"]), 1);
    assert!(err.contains("4 games in a row") && err.contains("No more today"), "{err}");
    assert!(err.contains("of 8 games are played; the same command plays the others"), "{err}");
    assert!(!work.path().join("out/llama_sampling_words_results.json").exists());
}
