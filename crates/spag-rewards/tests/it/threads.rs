//! Output and errors from file to file do not depend on the number of threads.

use std::{fs, num::NonZeroUsize, path::Path};

use spag_game::{Taboo, read_episodes};
use spag_rewards::{AssignJob, CreditConfig, assign_rewards, assign_rewards_in_files, write_samples};
use spag_tests::fixture;

/// The fixture's 3,000 episodes, which make several chunks.
fn episodes() -> String {
    fs::read_to_string(fixture("judge_cases.jsonl")).unwrap()
}

/// The contents of the output files, or the error message.
fn assign(folder: &Path, input: &str, output: &str, threads: usize) -> Result<(String, String), String> {
    let job = AssignJob {
        input: folder.join(input),
        sft: None,
        output: folder.join(output),
        outcomes: Some(folder.join("outcomes.jsonl")),
    };
    let config = CreditConfig { seed: 3, ..CreditConfig::default() };
    let threads = NonZeroUsize::new(threads).unwrap();
    assign_rewards_in_files(&job, &Taboo::default(), &config, threads).map_err(|error| error.to_string())?;
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    Ok((text(&job.output), text(&folder.join("outcomes.jsonl"))))
}

#[test]
fn files_equal_rewards_in_memory_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let lines = episodes();
    fs::write(folder.path().join("in.jsonl"), &lines).unwrap();
    let list = format!("[\n{}\n]", lines.trim().lines().collect::<Vec<_>>().join(",\n"));
    fs::write(folder.path().join("in.json"), list).unwrap();
    let config = CreditConfig { seed: 3, ..CreditConfig::default() };
    let episodes = read_episodes(folder.path().join("in.json")).unwrap();
    let credited = assign_rewards(&episodes, &Taboo::default(), &config).unwrap();
    let verdicts: String =
        credited.verdicts.iter().map(|verdict| serde_json::to_string(verdict).unwrap() + "\n").collect();
    for output in ["out.jsonl", "out.json"] {
        let whole = folder.path().join(format!("whole-{output}"));
        write_samples(&whole, &credited.samples).unwrap();
        let whole = fs::read_to_string(whole).unwrap();
        for input in ["in.jsonl", "in.json"] {
            for threads in [1, 2, 3, 8] {
                let (samples, outcomes) = assign(folder.path(), input, output, threads).unwrap();
                assert!(samples == whole, "{input} to {output} with {threads} threads");
                assert!(outcomes == verdicts, "{input}, {threads} threads");
            }
        }
    }
}

#[test]
fn escapes_and_key_order_make_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        r#"{"target_word": "caf\u00e9", "history": [{"content": "\u0041\n", "role": "attacker"}, {"role": "defender", "content": " CAF\u00c9 \/ \"x\" \t"}], "note": {"a": [1e5, "]}"]}}"#,
        r#"{"history":[{"role":"attacker","content":"\ud83d\ude00 \u0001","seconds":1.5},{"role":"defender","content":"I know the word! It is `a\\b`"}],"target_word":"a\\b","max_turns":1,"x":1E2}"#,
        r#"{"history": [], "target_word": "x", "max_turns": 0}"#,
    ];
    fs::write(folder.path().join("in.jsonl"), rows.join("\r\n\n")).unwrap();
    let config = CreditConfig { seed: 3, ..CreditConfig::default() };
    let episodes = read_episodes(folder.path().join("in.jsonl")).unwrap();
    let credited = assign_rewards(&episodes, &Taboo::default(), &config).unwrap();
    assert_eq!(credited.summary.decided(), 2);
    write_samples(folder.path().join("whole.jsonl"), &credited.samples).unwrap();
    let (samples, _) = assign(folder.path(), "in.jsonl", "out.jsonl", 2).unwrap();
    assert_eq!(samples, fs::read_to_string(folder.path().join("whole.jsonl")).unwrap());
}

#[test]
fn first_invalid_row_is_named() {
    let lines = episodes();
    let mut rows: Vec<&str> = lines.lines().collect();
    rows[1500] = r#"{"history": [{"role": "defender", "content": "a"}], "target_word": "cat"}"#;
    rows[2900] = "{\"history\": [";
    let as_lines = rows.join("\n");
    // The list is cut off instead.
    let as_list = format!("[{}", rows[..2900].join(","));
    for threads in [1, 2, 5] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in.jsonl"), &as_lines).unwrap();
        fs::write(folder.path().join("in.json"), &as_list).unwrap();
        for (input, name) in [("in.jsonl", "in.jsonl: row 1501: "), ("in.json", "in.json: row 1501: ")] {
            let message = assign(folder.path(), input, "out.jsonl", threads).unwrap_err();
            assert!(message.contains(name) && message.contains("attacker"), "{message}");
        }
        fs::write(folder.path().join("in.json"), as_list.replacen(rows[1500], rows[1499], 1)).unwrap();
        let message = assign(folder.path(), "in.json", "out.jsonl", threads).unwrap_err();
        assert!(message.contains("in.json: row 2901: ") && message.contains("cut off"), "{message}");
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["in.json", "in.jsonl"], "incomplete files are left");
    }
}
