//! `spag-play --constrain_actions`: a model that plays no game well says nothing but legal actions.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spag_tests::{Answer, Serve, Server, copy_folder, json, program, root, run};

fn play(dir: &Path, game: &str, more: &[&str]) -> Command {
    let model = root().join("data/tiny-llama");
    let mut command = program("spag-play");
    command.args(["--game", game, "--games_per_word", "6", "--max_new_tokens", "24", "--output_dir"]).arg(dir);
    for player in ["--attacker_model_name_or_path", "--defender_model_name_or_path"] {
        command.arg(player).arg(&model);
    }
    command.args(more);
    command
}

/// The games of the only file of results.
fn games(dir: &Path) -> Vec<Value> {
    let files = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let results = files.into_iter().find(|path| path.to_str().unwrap().ends_with("_results.json")).unwrap();
    json(results).as_array().unwrap().clone()
}

fn utterances(game: &Value) -> &[Value] {
    game["history"].as_array().unwrap()
}

#[test]
fn utterances_are_legal_actions() {
    let folder = tempfile::tempdir().unwrap();
    for game in ["tic-tac-toe", "nim", "kuhn-poker"] {
        let (free, held) = (folder.path().join(format!("{game}-free")), folder.path().join(format!("{game}-held")));
        run(&mut play(&free, game, &[]), 0);
        run(&mut play(&held, game, &["--constrain_actions", "--min_new_tokens", "2"]), 0);
        let refused = |dir: &Path| {
            games(dir)
                .iter()
                .flat_map(|game| utterances(game).to_vec())
                .filter(|said| said["refusal"].is_string())
                .count()
        };
        assert!(refused(&free) > 0, "{game}");
        assert_eq!(refused(&held), 0, "{game}");
        let said: Vec<Value> = games(&held).iter().flat_map(|game| utterances(game).to_vec()).collect();
        assert!(said.len() > 6, "{game}: {said:?}");
        for utterance in said {
            let text = utterance["content"].as_str().unwrap();
            assert!(text.starts_with('[') && text.ends_with(']'), "{game}: {text:?}");
        }
    }
    // Greedy choices are those of any batch.
    let (many, one) = (folder.path().join("many"), folder.path().join("one"));
    let greedy = ["--constrain_actions", "--task_type", "testing", "--per_device_eval_batch_size"];
    run(play(&many, "tic-tac-toe", &greedy).arg("6"), 0);
    run(play(&one, "tic-tac-toe", &greedy).arg("1"), 0);
    let histories = |dir: &Path| games(dir).iter().map(|game| game["history"].clone()).collect::<Vec<_>>();
    assert_eq!(histories(&many), histories(&one));
}

fn against_itself(dir: &Path, player: &str) -> Command {
    let mut command = program("spag-play");
    command.args([
        "--game",
        "kuhn-poker",
        "--game_options",
        "rounds=1",
        "--games_per_word",
        "6",
        "--max_new_tokens",
        "12",
    ]);
    command.arg("--constrain_actions");
    for seat in ["--attacker_model_name_or_path", "--defender_model_name_or_path"] {
        command.args([seat, player]);
    }
    command.arg("--output_dir").arg(dir).env_remove("OPENAI_API_KEY");
    command
}

#[test]
fn endpoints_are_held_where_they_can_be() {
    let folder = tempfile::tempdir().unwrap();
    // A server does not cut prompts, as an engine of this process does.
    let model = folder.path().join("tiny-llama");
    copy_folder(root().join("data/tiny-llama"), &model);
    let mut config = json(model.join("config.json"));
    config["max_position_embeddings"] = 4096.into();
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    let server = Serve::start([&model]);
    let held = folder.path().join("held");
    run(&mut against_itself(&held, &format!("openai-completions:{}#tiny-llama", server.url("/v1"))), 0);
    let said: Vec<Value> = games(&held).iter().flat_map(|game| utterances(game).to_vec()).collect();
    assert!(said.len() >= 6 * 2, "{said:?}");
    assert!(said.iter().all(|utterance| utterance.get("refusal").is_none()), "{said:?}");
    // A server that would ignore the list.
    let other = Server::start(|_| Answer::says("[check]"));
    let free = folder.path().join("free");
    let (_, err) = run(&mut against_itself(&free, &format!("openai:{}#m", other.base_url())), 1);
    assert!(err.contains("is not known to hold its answers to a list"), "{err}");
    assert_eq!(other.received().len(), 0);
}
