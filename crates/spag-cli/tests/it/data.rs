//! `spag data` on small files.

use std::fs;

use serde_json::Value;
use spag_tests::{json_lines, program, run};

const GAMES: &str = r#"[
  {"history": [{"role": "attacker", "content": "What do you eat?"}, {"role": "defender", "content": "An apple. "}],
   "target_word": "apple", "max_turns": 5},
  {"history": [{"role": "attacker", "content": "Hello."}, {"role": "defender", "content": "Hello."}], "target_word": "fork", "max_turns": 1}
]"#;

#[test]
fn imitation_keeps_utterances_of_winners() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gpt4.json"), GAMES).unwrap();
    let flags = ["--input_data_path", "gpt4.json", "--output-data-path", "train.jsonl", "--seed", "3"];
    let (out, _) = run(program("spag").current_dir(folder.path()).args(["data", "imitation"]).args(flags), 0);
    let rows = json_lines(folder.path().join("train.jsonl"));
    assert_eq!((rows.len(), &rows[0]["target"]), (1, &Value::from("What do you eat?")));
    assert!(rows[0]["query"].as_str().unwrap().contains("apple"));
    assert!(out.contains("2 episodes, 1 decided"), "{out}");
}

#[test]
fn alpaca_uses_the_built_in_or_an_own_template() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let alpaca = |flags: &[&str], code| {
        let files = ["data", "alpaca", "--input_data_path", "a.json", "--output_data_path", "b.jsonl"];
        run(program("spag").current_dir(folder.path()).args(files).args(flags), code)
    };
    write(
        "a.json",
        r#"[{"instruction": "Add.", "input": "1 and 2", "output": "3"}, {"instruction": "Greet.", "input": "", "output": "Hi"}]"#,
    );
    alpaca(&[], 0);
    let rows = json_lines(folder.path().join("b.jsonl"));
    assert_eq!(rows[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["prompt", "target"]);
    assert!(rows[0]["prompt"].as_str().unwrap().contains("1 and 2"));

    write("t.json", r#"{"with_input": "{instruction}/{input}:", "without_input": "{instruction}:"}"#);
    alpaca(&["--template", "t.json"], 0);
    let prompts =
        json_lines(folder.path().join("b.jsonl")).into_iter().map(|row| row["prompt"].clone()).collect::<Vec<_>>();
    assert_eq!(prompts, ["Add./1 and 2:", "Greet.:"]);

    write("t.json", r#"{"with_input": "{instruction}", "without_input": "{instruction}:"}"#);
    let (_, err) = alpaca(&["--template", "t.json"], 2);
    assert!(err.contains("t.json") && err.contains("{input}"), "{err}");
    write("a.json", r#"[{"instruction": "Add.", "output": "3"}, {"output": "3"}]"#);
    let (_, err) = alpaca(&[], 2);
    assert!(err.contains("a.json: row 2") && err.contains("instruction"), "{err}");
    // The failed run kept the file.
    assert_eq!(json_lines(folder.path().join("b.jsonl")).len(), 2);
}
