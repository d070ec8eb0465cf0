//! `spag-play` with an endpoint (an HTTP server of the test) as attacker and a local model as defender.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use spag_tests::{
    Answer, Received, Running, Server, json_lines, play_command, program, root, run, send_signal, wait_until,
};

const WORDS: [&str; 8] = ["bear", "beaver", "frog", "goat", "lemon", "lion", "mouse", "tiger"];

/// The endpoint against the base model, one game per word.
fn play(dir: &Path, server: &Server) -> Command {
    fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    let attacker = format!("openai:{}#big-model", server.base_url());
    let mut command = play_command(dir, attacker, root().join("data/tiny-llama"));
    command.env_remove("OPENAI_API_KEY").args(["--taboo_max_turns", "2"]);
    command
}

fn output(dir: &Path, ending: &str) -> Value {
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
    let results = output(work.path(), "results.json");
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
    let run = &output(work.path(), "summary.json")["this_run"];
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
fn endpoint_is_asked_for_top_k_where_it_is_accepted_or_with_the_flag() {
    for (owner, flags, top_k, recorded) in [
        ("openai", &[][..], json!(null), "with top_k 50 where accepted; "),
        ("vllm", &[], json!(50), "with top_k 50 where accepted; "),
        ("openai", &["--top_k", "40"], json!(40), "with top_k 40; "),
        ("vllm", &["--top_k", "40"], json!(40), "with top_k 40; "),
        ("openai", &["--top_k", "0"], json!(null), "#big-model; "),
        ("vllm", &["--top_k", "0"], json!(-1), "#big-model; "),
    ] {
        let models = json!({"data": [{"id": "big-model", "owned_by": owner}]});
        let server = Server::with_models(Answer::new(200, models), clue);
        let work = tempfile::tempdir().unwrap();
        let (_, err) = run(play(work.path(), &server).args(flags), 0);
        assert!(server.received().iter().all(|request| request.body["top_k"] == top_k), "{owner} {flags:?}");
        let record = fs::read_to_string(work.path().join("out/llama_sampling_words_rank0.jsonl")).unwrap();
        assert!(record.contains(recorded), "{record}");
        let is_told = err.contains("is not known to accept top_k");
        assert_eq!(is_told, owner == "openai" && flags.is_empty(), "{err}");
    }
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
    assert_eq!(words(&output(&dir, "results.json")), others);
    assert_eq!(output(&dir, "summary.json")["missing"], 2);

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
        let mut games = output(dir, "results.json");
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

/// Two endpoints against each other, on one thread.
fn play_endpoints(dir: &Path, attacker: &str, defender: &str) -> Command {
    fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    let mut command = play_command(dir, attacker, defender);
    command.env("OPENAI_API_KEY", "sk-common-1234").env("OTHER_API_KEY", "sk-other-5678");
    command.env_remove("MISSING_API_KEY").args(["--taboo_max_turns", "2"]);
    command
}

/// The keys that a server has received.
fn keys(server: &Server) -> BTreeSet<Option<String>> {
    server.received().iter().map(|request| request.header("authorization").map(str::to_owned)).collect()
}

#[test]
fn each_key_is_sent_to_its_own_host() {
    let bearer = |key: &str| BTreeSet::from([Some(format!("Bearer {key}"))]);
    // The attacker's and the defender's variable, the keys that they receive, and whether a note is printed.
    for (variables, expected, noted) in [
        (["", ""], [BTreeSet::from([None]), BTreeSet::from([None])], 2),
        (["", "OTHER_API_KEY@"], [BTreeSet::from([None]), bearer("sk-other-5678")], 1),
        (["OPENAI_API_KEY@", "OTHER_API_KEY@"], [bearer("sk-common-1234"), bearer("sk-other-5678")], 0),
    ] {
        let (first, second) = (Server::start(clue), Server::start(clue));
        let work = tempfile::tempdir().unwrap();
        let player = |variable: &str, server: &Server| format!("openai:{variable}{}#m", server.base_url());
        let (attacker, defender) = (player(variables[0], &first), player(variables[1], &second));
        let (_, err) = run(&mut play_endpoints(work.path(), &attacker, &defender), 0);
        assert_eq!([keys(&first), keys(&second)], expected, "{variables:?}");
        assert_eq!(err.matches("OPENAI_API_KEY is not sent to").count(), noted, "{err}");
        assert!(!err.contains("sk-"), "{err}");
    }
    // Both on one host.
    let server = Server::start(clue);
    let work = tempfile::tempdir().unwrap();
    let [attacker, defender] = ["a", "b"].map(|model| format!("openai:{}#{model}", server.base_url()));
    run(&mut play_endpoints(work.path(), &attacker, &defender), 0);
    assert_eq!(keys(&server), bearer("sk-common-1234"));
    // Refused before a request is sent.
    let before = server.received().len();
    for (variable, part) in [("MISSING_API_KEY@", "MISSING_API_KEY"), ("sk-typed-here@", "NAME_API_KEY")] {
        let attacker = format!("openai:{variable}{}#a", server.base_url());
        let (_, err) = run(&mut play_endpoints(work.path(), &attacker, &defender), 2);
        assert!(err.contains(part) && !err.contains("sk-"), "{err}");
    }
    for key in ["sk-bad\nkey", "sk-schl\u{fc}ssel"] {
        let (_, err) = run(play_endpoints(work.path(), &attacker, &defender).env("OPENAI_API_KEY", key), 2);
        assert!(err.contains("OPENAI_API_KEY") && !err.contains("sk-"), "{err}");
    }
    assert_eq!(server.received().len(), before);
}

#[test]
fn echoed_key_reaches_no_file() {
    let server = Server::start(|request| {
        let key = request.header("authorization").unwrap_or_default().to_owned();
        match request.seed() % 3 {
            0 => Answer::error(400, &format!("bad {key}")),
            1 => Answer::new(200, json!({"choices": [{"message": {}, "finish_reason": format!("{key}\u{1b}[2J")}]})),
            _ => Answer::says(&format!("My {key} is heavy.")),
        }
    });
    let work = tempfile::tempdir().unwrap();
    let player = format!("openai:{}#m", server.base_url());
    let output = play_endpoints(work.path(), &player, &player).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let mut texts = vec![output.stdout, output.stderr];
    texts.extend(fs::read_dir(work.path().join("out")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()));
    let texts: Vec<_> = texts.iter().map(|text| String::from_utf8_lossy(text)).collect();
    assert!(texts.iter().all(|text| !text.contains("sk-common")), "{texts:#?}");
    assert!(texts.iter().any(|text| text.contains("My Bearer [key] is heavy.")), "{texts:#?}");
}

#[cfg(target_os = "linux")]
#[test]
fn hung_rank_is_named_and_ends_the_launch() {
    let server = Server::start(|request| clue(request).after(Duration::from_millis(200)));
    let work = tempfile::tempdir().unwrap();
    let player = format!("openai:{}#m", server.base_url());
    let mut played = play_endpoints(work.path(), &player, &player);
    played.args(["--games_per_word", "40"]);
    let mut command = program("spag");
    command.args(["launch", "--nproc_per_node", "2", "--grace", "2", "--"]).arg(played.get_program());
    command.args(played.get_args()).current_dir(work.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut launcher = Running::start(&mut command);
    let record = work.path().join("out/llama_sampling_words_rank1.jsonl");
    let limit = Duration::from_secs(120);
    wait_until("rank 1 plays", limit, || fs::metadata(&record).is_ok_and(|file| file.len() > 0));
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_rank_1 = |process: &u32| {
        let parent = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = parent.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        let variables = fs::read_to_string(format!("/proc/{process}/environ")).unwrap_or_default();
        parent == Some(launcher.id()) && variables.split('\0').any(|variable| variable == "RANK=1")
    };
    let rank = processes.collect::<Vec<u32>>().into_iter().find(is_rank_1).expect("rank 1 runs");
    send_signal(rank, "STOP");
    let code = launcher.wait_for(limit).expect("the launcher ends").code();
    let mut err = String::new();
    launcher.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("lost rank 1: no heartbeat"), "{err}");
    // The games of the hung rank were played by the other.
    assert_eq!(output(work.path(), "results.json").as_array().unwrap().len(), 40 * WORDS.len());
    wait_until("the rank is killed", limit, || {
        let stat = fs::read_to_string(format!("/proc/{rank}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}
