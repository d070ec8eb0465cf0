//! `spag check`: answers of other programs compared as mathematics.

use std::fs;
use std::path::Path;

use serde_json::json;
use spag_tests::{json_lines, program, run};

fn check(dir: &Path, lines: &str, code: i32) -> (String, String) {
    fs::write(dir.join("pairs.jsonl"), lines).unwrap();
    let mut command = program("spag");
    command.current_dir(dir).args(["check", "--input", "pairs.jsonl", "--output", "verdicts.jsonl"]);
    run(&mut command, code)
}

#[test]
fn verdicts_are_in_the_order_of_the_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        json!({"gold": "\\frac{1}{2}", "answer": "So \\boxed{0.5}.", "source": "x"}),
        json!({"gold": "7", "answer": "The answer is 8."}),
        json!({"gold": "7", "answer": "I do not know."}),
        json!({"gold": "\\text{odd}", "answer": "\\boxed{it depends on it}"}),
    ];
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let (said, _) = check(folder.path(), &lines, 0);
    assert!(said.contains("4 pairs: 1 equal, 1 without an answer, 1 compared as texts"), "{said}");
    let expected = [
        json!({"equal": true, "extracted": "0.5"}),
        json!({"equal": false, "extracted": "8"}),
        json!({"equal": false, "extracted": null}),
        json!({"equal": false, "extracted": "it depends on it", "unparsed": true}),
    ];
    assert_eq!(json_lines(folder.path().join("verdicts.jsonl")), expected);
}

#[test]
fn bad_rows_leave_the_output_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("verdicts.jsonl"), "mine").unwrap();
    let good = json!({"gold": "1", "answer": "1"});
    for (lines, said) in [
        (String::new(), "the file has no pairs"),
        (format!("{good}\n{{\"gold\": \"1\"}}\n"), "pairs.jsonl: row 2"),
        (format!("{good}\n{{\"gold\": 1, \"answer\": \"1\"}}\n"), "row 2"),
        ("no json\n".to_owned(), "row 1"),
    ] {
        let (_, err) = check(folder.path(), &lines, 2);
        assert!(err.contains(said), "{said}: {err}");
        assert_eq!(fs::read_to_string(folder.path().join("verdicts.jsonl")).unwrap(), "mine");
    }
}
