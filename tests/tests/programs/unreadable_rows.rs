//! A text that the model cannot read fails its own game or row, and no other.

use std::fs;
use std::path::Path;

use serde_json::json;
use spag_game::read_episodes;
use spag_tests::{copy_folder, fixture, json, json_lines, program, run};

/// A copy of the model whose tokenizer has an added token `[PAD]` without an embedding. It is not special: the text of a
/// special token is ordinary text in a game.
fn model_with_pad(to: &Path) {
    copy_folder(fixture("tiny-llama"), to);
    let mut tokenizer = json(to.join("tokenizer.json"));
    let pad = json!({"id": 1000, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false,
                     "normalized": false, "special": false});
    tokenizer["added_tokens"].as_array_mut().unwrap().push(pad);
    fs::write(to.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

fn play(dir: &Path, code: i32) -> (String, String) {
    let mut command = program("spag-play");
    command.current_dir(dir).args(["--attacker_model_name_or_path", "model", "--defender_model_name_or_path", "model"]);
    command.args([
        "--data_path",
        "words.txt",
        "--output_dir",
        "out",
        "--task_type",
        "testing",
        "--max_new_tokens",
        "4",
    ]);
    run(command.args(["--taboo_max_turns", "1"]), code)
}

#[test]
fn word_with_a_token_beyond_the_vocabulary_fails_its_games_only() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    model_with_pad(&dir.join("model"));
    // More than ten in a row, and the longest word.
    let words = ["cat", &"a[PAD]\n".repeat(12), "horse\nhippopotamus[PAD]\n"].join("\n");
    fs::write(dir.join("words.txt"), words).unwrap();
    for _ in 0..2 {
        let (_, err) = play(dir, 1);
        let said = "13 of 15 games failed";
        assert!(err.contains(said) && err.contains("game 1 on \"a[PAD]\"") && err.contains("id 1000"), "{err}");
    }
    let games = read_episodes(dir.join("out/llama_testing_words_results.json")).unwrap();
    assert_eq!(games.iter().map(|game| game.item.as_str()).collect::<Vec<_>>(), ["cat", "horse"]);
    let failed = json_lines(dir.join("out/llama_testing_words_rank0_failed.jsonl"));
    assert_eq!(failed.len(), 13);
    assert!(failed.iter().all(|game| game["target_word"].as_str().unwrap().contains("[PAD]")));
}

#[test]
fn prompt_with_a_token_beyond_the_vocabulary_fails_its_row_only() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    model_with_pad(&dir.join("model"));
    let generate = |rows: &[&str], code: i32| {
        let lines: String = rows.iter().map(|row| format!("{}\n", json!({ "prompt": row }))).collect();
        fs::write(dir.join("in.jsonl"), lines).unwrap();
        let mut command = program("spag");
        command.current_dir(dir).args(["generate", "--model", "model", "--input", "in.jsonl", "--output", "out.jsonl"]);
        run(command.args(["--task_type", "testing", "--max_new_tokens", "4"]), code).1
    };
    generate(&["one", "two", "three"], 0);
    let whole = json_lines(dir.join("out.jsonl"));
    let err = generate(&["one", "a [PAD] b", "three", "[PAD]"], 1);
    assert!(err.contains("2 of 4 prompts failed") && err.contains("row 2") && err.contains("id 1000"), "{err}");
    let rows = json_lines(dir.join("out.jsonl"));
    assert_eq!((rows.len(), &rows[0], &rows[2]), (4, &whole[0], &whole[2]));
    assert!(rows[1]["error"].as_str().unwrap().contains("id 1000") && rows[1]["prompt"] == "a [PAD] b");
    let err = generate(&["[PAD]"], 2);
    assert!(err.contains("row 1") && err.contains("the output is left as it is"), "{err}");
    assert_eq!(json_lines(dir.join("out.jsonl")), rows);
}

#[test]
fn empty_prompt_fails_its_row_only_if_prompts_do_not_begin_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("in.jsonl"), "{\"prompt\": \"\"}\n{\"prompt\": \"a horse\"}\n").unwrap();
    for (model, code) in [("tiny-llama", 0), ("families/qwen2", 1)] {
        let mut command = program("spag");
        command.current_dir(dir).args([
            "generate",
            "--input",
            "in.jsonl",
            "--output",
            "out.jsonl",
            "--max_new_tokens",
            "4",
        ]);
        let (_, err) = run(command.arg("--model").arg(fixture(model)), code);
        let rows = json_lines(dir.join("out.jsonl"));
        assert!(rows[1]["text"].is_string(), "{rows:?}");
        let error = rows[0]["error"].as_str().unwrap_or_default();
        assert_eq!(error.contains("the prompt has no tokens"), code == 1, "{rows:?}");
        assert_eq!(err.contains("row 1: generation: the prompt has no tokens"), code == 1, "{err}");
    }
}
