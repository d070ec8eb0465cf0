//! Greedy games equal those of the reference's playing program, utterance by utterance: `fixtures/play/README.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_game::{Episode, JudgeKind, judge_episode, read_episodes};
use spag_tests::{copy_folder, fixture, json, program, root, run};

/// A file of games, the model that played them, its prompts and `--max_new_tokens`.
struct Games {
    file: &'static str,
    model: &'static str,
    prompts: &'static str,
    max_new_tokens: &'static str,
}

const GAMES: [Games; 3] = [
    Games {
        file: "tiny-llama.json",
        model: "tests/fixtures/tiny-llama",
        prompts: "prompts.json",
        max_new_tokens: "32",
    },
    Games { file: "base-prompts.json", model: "data/tiny-llama", prompts: "prompts.json", max_new_tokens: "24" },
    Games {
        file: "base-tiny-prompts.json",
        model: "data/tiny-llama",
        prompts: "tiny-prompts.json",
        max_new_tokens: "24",
    },
];

/// Copies a model and gives it 4,096 positions.
fn raised(model: &str, to: &Path) {
    copy_folder(root().join(model), to);
    let mut config = json(to.join("config.json"));
    config["max_position_embeddings"] = json!(4096);
    fs::write(to.join("config.json"), config.to_string()).unwrap();
}

/// Plays the words of the fixtures greedily, and returns the games by word.
fn played(games: &Games, flags: &[&str]) -> BTreeMap<String, Episode> {
    let folder = tempfile::tempdir().unwrap();
    raised(games.model, &folder.path().join("model"));
    let mut command = program("spag-play");
    command.current_dir(folder.path());
    command.args(["--attacker_model_name_or_path", "model", "--defender_model_name_or_path", "model"]);
    command.arg("--data_path").arg(fixture("play/words.txt"));
    command.arg("--prompts").arg(fixture("play").join(games.prompts));
    command.args(["--output_dir", "out", "--task_type", "testing", "--taboo_max_turns", "5"]);
    command.args(["--max_length", "2048", "--max_new_tokens", games.max_new_tokens]);
    run(command.args(flags), 0);
    by_word(&folder.path().join("out/llama_testing_words_results.json"))
}

fn by_word(file: &Path) -> BTreeMap<String, Episode> {
    read_episodes(file).unwrap().into_iter().map(|episode| (episode.item.clone(), episode)).collect()
}

#[test]
fn played_on_games_are_those_of_the_reference() {
    for games in &GAMES {
        let reference = by_word(&fixture("play").join(games.file));
        let own = played(games, &["--play_on", "True"]);
        assert_eq!((reference.len(), own.len()), (40, 40), "{}", games.file);
        for (word, game) in &reference {
            assert_eq!(own[word].history, game.history, "{}: {word}", games.file);
        }
    }
}

#[test]
fn games_that_stop_when_decided_begin_as_those_of_the_reference() {
    for games in &GAMES {
        let reference = by_word(&fixture("play").join(games.file));
        for (word, own) in played(games, &[]) {
            let verdict = judge_episode(JudgeKind::Paper, &reference[&word]).unwrap();
            let same = own.history.len().min(reference[&word].history.len());
            assert_eq!(own.history[..same], reference[&word].history[..same], "{}: {word}", games.file);
            assert!(own.history.len() >= verdict.history_length, "{}: {word}", games.file);
            // The reference also stops at a guess that decides nothing, where these games go on.
            let decided = judge_episode(JudgeKind::Paper, &own).unwrap();
            assert_eq!(decided.history_length, own.history.len(), "{}: {word}", games.file);
        }
    }
}

/// `--max_length` cuts prompts alone: those of a game that begins to cut are as long as before, and utterances may follow.
#[test]
fn prompts_are_cut_at_max_length_and_utterances_follow() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    raised("data/tiny-llama", &model);
    let rows = ["cat", "one two three four five six seven eight nine ten eleven twelve"];
    let lines: String = rows.iter().map(|row| format!("{}\n", json!({ "prompt": row }))).collect();
    fs::write(folder.path().join("in.jsonl"), lines).unwrap();
    let cut_tokens = |max_length: &str| -> Vec<u64> {
        let mut command = program("spag");
        command.current_dir(folder.path()).args(["generate", "--model", "model", "--input", "in.jsonl"]);
        command.args(["--output", "out.jsonl", "--task_type", "testing", "--max_new_tokens", "40"]);
        run(command.args(["--max_length", max_length]), 0);
        let text = fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
        let cut = |line: &str| serde_json::from_str::<Value>(line).unwrap()["cut_tokens"].as_u64().unwrap();
        text.lines().map(cut).collect()
    };
    let long = 4096 - 40;
    assert_eq!(cut_tokens(&long.to_string()), [0, 0]);
    let all = cut_tokens("1");
    let tokens = all[1] + 1;
    assert_eq!(cut_tokens(&tokens.to_string()), [0, 0], "the longest prompt fits exactly");
    assert_eq!(cut_tokens(&(tokens - 3).to_string()), [0, 3]);
}

/// `spag-play` on `words` of one turn, with the prompts of the small world.
fn short_games(dir: &Path, words: &str, flags: &[&str], code: i32) -> String {
    fs::write(dir.join("words.txt"), words).unwrap();
    let mut command = program("spag-play");
    command.current_dir(dir).args(["--data_path", "words.txt", "--output_dir", "out", "--max_new_tokens", "8"]);
    for seat in ["--attacker_model_name_or_path", "--defender_model_name_or_path"] {
        command.arg(seat).arg(root().join("data/tiny-llama"));
    }
    if !flags.contains(&"--prompts") {
        command.arg("--prompts").arg(root().join("configs/tiny-prompts.json"));
    }
    run(command.args(["--taboo_max_turns", "1"]).args(flags), code).1
}

#[test]
fn repeated_words_are_played_again_and_blank_lines_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let said = short_games(folder.path(), "bear\n\nfrog\nbear\n", &[], 0);
    let note = "words.txt: 3 words, of which 1 is on an earlier line too and is played again; 1 blank line is skipped";
    assert!(said.contains(note), "{said}");
    let games = read_episodes(folder.path().join("out/llama_sampling_words_results.json")).unwrap();
    assert_eq!(games.iter().map(|game| game.item.as_str()).collect::<Vec<_>>(), ["bear", "frog", "bear"]);
}

/// A record without these settings, as of earlier versions, was drawn from all tokens and has trimmed utterances.
#[test]
fn records_of_other_sampling_utterances_or_stops_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    short_games(dir, "bear\nfrog\n", &["--top_k", "0"], 0);
    let record = fs::read_to_string(dir.join("out/llama_sampling_words_rank0.jsonl")).unwrap();
    assert!(!record.contains("top_k") && !record.contains("utterances") && !record.contains("play_on"));
    assert!(short_games(dir, "bear\nfrog\n", &["--top_k", "0"], 0).contains("2 of 2 games"));
    let built_in = root().join("crates/spag-game/data/prompts.json");
    for (flags, difference) in [
        (&[][..], "then (nothing), now top_k=50"),
        (&["--top_k", "0", "--play_on"], "then (nothing), now play_on=until a guess"),
        (&["--top_k", "0", "--prompts", built_in.to_str().unwrap()], "utterances=as-decoded"),
        (&["--top_k", "0", "--max_length", "300"], "then (nothing), now max_prompt_length=300"),
    ] {
        let said = short_games(dir, "bear\nfrog\n", flags, 2);
        assert!(said.contains(difference), "{flags:?}: {said}");
    }
}
