//! `spag run` with players behind endpoints: games to imitate, and servers that play the rounds.

use std::fs;
use std::path::Path;
use std::process::Command;

use spag_game::read_episodes;
use spag_tests::{Serve, json, program, root, run};

/// A run of one round whose games are played by servers.
fn served_run(dir: &Path, server: &Serve) -> Command {
    let url = format!("http://{}/v1", server.address());
    let other = format!("http://localhost:{}/v1", server.address().port());
    let note = dir.with_extension("prepared");
    let mut command = program("spag");
    command.args(["run", "configs/tiny.toml"]);
    for setting in [
        format!("run_dir={}", dir.display()),
        "epochs=1".to_owned(),
        "imitation.source=endpoint".to_owned(),
        format!("imitation.player=openai-completions:{url}#strong"),
        "imitation.games=40".to_owned(),
        "imitation.max_new_tokens=24".to_owned(),
        "self_play.games=24".to_owned(),
        format!("self_play.player=openai-completions:{url},{other}#{{stage}}"),
        format!("self_play.prepare=[\"sh\", \"-c\", \"echo $SPAG_MODEL_NAME $SPAG_MODEL_DIR > '{}'\"]", note.display()),
        "evaluation.games=6".to_owned(),
        "evaluation.self_play_games=0".to_owned(),
        "benchmarks.limit=2".to_owned(),
    ] {
        command.args(["--set", &setting]);
    }
    command
}

#[test]
fn servers_play_the_games_to_imitate_and_the_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let model = root().join("data/tiny-llama").display().to_string();
    let models = [format!("strong={model}"), format!("im={model}")];
    let server = Serve::start(["--model", &models[0], "--model", &models[1]]);
    let dir = folder.path().join("run");
    let mut again = served_run(&dir, &server);
    let (_, err) = run(&mut served_run(&dir, &server), 0);
    assert!(err.contains(" requests since the last start, "), "{err}");
    let done = json(dir.join("im/done.json"));
    for count in ["requests", "prompt_tokens", "completion_tokens"] {
        assert!(done["counts"][count].as_u64().is_some_and(|count| count > 40), "{done}");
    }
    let games = |stage: &str| read_episodes(dir.join(stage).join("episodes.jsonl")).unwrap().len();
    assert_eq!((games("im"), games("spag-1")), (40, 24));
    let prepared = fs::read_to_string(dir.with_extension("prepared")).unwrap();
    assert_eq!(prepared.trim(), format!("im {}", dir.join("im/model").display()));
    let report = json(dir.join("report.json"));
    let played = report["training_games"][0]["name"].as_str().unwrap();
    assert!(played.starts_with("openai-completions:") && played.ends_with("#strong"), "{played}");
    // A finished run asks no server.
    let finished = server.address();
    drop(server);
    assert!(std::net::TcpStream::connect(finished).is_err());
    let (out, _) = run(&mut again, 0);
    assert!(out.contains("SPAG-1"), "{out}");
}

#[test]
fn command_that_prepares_servers_and_fails_stops_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let model = root().join("data/tiny-llama").display().to_string();
    let server = Serve::start(["--model", &format!("strong={model}")]);
    let dir = folder.path().join("run");
    let (_, err) = run(served_run(&dir, &server).args(["--set", "self_play.prepare=[\"false\"]"]), 1);
    assert!(err.contains("self_play.prepare: false: exit status: 1"), "{err}");
    assert!(dir.join("im/model/model.safetensors").exists() && !dir.join("spag-1/samples.jsonl").exists());
    // Servers without the model end the run, which names them.
    let (_, err) = run(&mut served_run(&dir, &server), 1);
    assert!(err.contains("has no such model"), "{err}");
}

#[test]
fn server_is_the_opponent_of_an_on_policy_run() {
    let folder = tempfile::tempdir().unwrap();
    let model = root().join("data/tiny-llama").display().to_string();
    let server = Serve::start(["--model", &format!("strong={model}")]);
    let dir = folder.path().join("run");
    let mut command = program("spag");
    command.args(["run", "configs/tiny-online.toml"]);
    for setting in [
        format!("run_dir={}", dir.display()),
        "imitation.games=40".to_owned(),
        "online.updates=2".to_owned(),
        "online.eval_updates=2".to_owned(),
        "online.games_per_update=8".to_owned(),
        "online.opponent=fixed".to_owned(),
        "online.opponent_share=0.5".to_owned(),
        format!("online.opponent_model=openai-completions:http://{}/v1#strong", server.address()),
        "evaluation.games=6".to_owned(),
        "evaluation.held_out_games=2".to_owned(),
        "evaluation.self_play_games=0".to_owned(),
    ] {
        command.args(["--set", &setting]);
    }
    run(&mut command, 0);
    let metrics = fs::read_to_string(dir.join("metrics.jsonl")).unwrap();
    for line in metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        assert_eq!((number("opponent_games"), number("log_prob_gap_max"), number("failed_games")), (4.0, 0.0, 0.0));
        // Those of the server are not among them.
        assert!(number("log_prob_gap_tokens") > 0.0 && number("samples") <= number("utterances"));
    }
    drop(server);
    let other = format!("online.opponent_model=openai:{}", "not a server");
    let (_, err) = run(command.args(["--set", &other]), 2);
    assert!(err.contains("online.opponent_model"), "{err}");
}
